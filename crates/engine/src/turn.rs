//! What a run is told about where it works, and how much fits into its model.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidegate_agent::context::{BootstrapFile, PromptMode, Pruning, PruningMode, Scene};
use tidegate_agent::{Flush, Manual, Turn, Window};
use tidegate_config::schema;
use tidegate_protocol::{
    Id as _, ModelRef, Place, ReplyTarget, RunId, RunSpec, SessionKey, ToolCall, ToolError, ToolErrorCode,
    ToolSource,
};
use tidegate_storage::Lease;

use crate::execute::Work;
use crate::settings::Settings;
use crate::start::Core;

/// What is assumed of a model that nobody described.
const USUAL_WINDOW: u64 = 128_000;
/// The newest tokens that stay as they are when the rest is summed up.
const KEEP_RECENT: u64 = 20_000;

impl Core {
    pub(crate) async fn scene(self: &Arc<Self>, work: &Work, lease: &Lease, spec: RunSpec) -> Turn {
        let scene = self.surroundings(work, &spec).await;
        let window = self.settings.window(&spec.models, scene.group);
        let manual = spec.tools.manual.then(|| manual(&work.input.text(), work.run)).flatten();
        Turn { lease: lease.clone(), spec, input: work.input.clone(), manual, scene, window }
    }

    /// Where a run works, as its model is told.
    pub(crate) async fn surroundings(self: &Arc<Self>, work: &Work, spec: &RunSpec) -> Scene {
        let group = matches!(work.key.place, Place::Group { .. });
        let sub = matches!(work.key.place, Place::Sub { .. });
        let settings = &self.settings;
        Scene {
            mode: if sub { PromptMode::Minimal } else { PromptMode::Full },
            agent: settings.agent_name(&work.key.scope.agent),
            workspace: spec.tools.root.clone().or_else(|| Some(self.workspace_shown(work))),
            files: self.bootstrap(work).await,
            longest_file: usize::try_from(settings.agent_defaults().bootstrap_max_chars).ok(),
            zone: settings.zone().name().to_owned(),
            channel: channel_of(&work.key),
            group,
            task: sub.then(|| task(&work.reply)),
        }
    }

    fn workspace_shown(&self, work: &Work) -> String {
        let folder = self.settings.workspace(&work.key.scope.agent, self.lock.home());
        folder.to_string_lossy().into_owned()
    }

    /// What the agent's owner wrote for it, read off the asynchronous threads.
    async fn bootstrap(self: &Arc<Self>, work: &Work) -> Vec<BootstrapFile> {
        let folder = self.settings.workspace(&work.key.scope.agent, self.lock.home());
        if self.settings.agent_defaults().skip_bootstrap {
            return Vec::new();
        }
        let core = Arc::clone(self);
        let read = move || core.workspaces.bootstrap(&folder, &core.toolbox.forbidden);
        tidegate_runtime::spawn_blocking("bootstrap", read).join().await.unwrap_or_default()
    }
}

/// What a run is told that another one started.
fn task(reply: &ReplyTarget) -> String {
    let asked = match reply {
        ReplyTarget::Announce { key, label, .. } => {
            format!("You are a subagent. The session {} started you for one task: {label:?}.", key.label())
        }
        _ => "You are a subagent, and another session wrote to you about your task.".to_owned(),
    };
    format!(
        "{asked} Do that task and nothing else. Nobody reads what you write on the way: your last answer is handed to the \
         session that started you, so put everything it needs into it, with what you found, what you did and what is \
         left open. Start no conversations and wait for nobody."
    )
}

fn channel_of(key: &SessionKey) -> Option<String> {
    match &key.place {
        Place::Dm { channel, .. } => channel.as_ref().map(ToString::to_string),
        Place::Group { channel, .. } => Some(channel.to_string()),
        Place::Main | Place::Named { .. } | Place::Sub { .. } => None,
    }
}

/// The calls that a person wrote with `tool:`. Their ids are the run's own: a vendor may refuse a conversation in which
/// one comes twice.
fn manual(text: &str, run: RunId) -> Option<Manual> {
    let id = |at: usize| format!("{}-{}", run.alias(), at + 1);
    let call = |id: String, name: String, args| ToolCall { id, name, args, source: ToolSource::User };
    Some(match tidegate_routing::manual::parse(text)? {
        Ok(written) => {
            let calls = written.calls.into_iter().enumerate().map(|(at, written)| {
                let id = written.id.unwrap_or_else(|| id(at));
                call(id, written.name, written.args)
            });
            Manual { calls: calls.collect(), malformed: None }
        }
        Err(malformed) => {
            let args = json!({ "input": malformed.input, "reason": malformed.reason });
            let error = ToolError {
                code: ToolErrorCode::InvalidArgs,
                tool: "tool".to_owned(),
                message: malformed.reason,
                details: None,
            };
            Manual { calls: vec![call(id(0), "tool".to_owned(), args)], malformed: Some(error) }
        }
    })
}

impl Settings {
    /// What fits into the models of a run, and what is done when it does not.
    pub(crate) fn window(&self, models: &[ModelRef], untrusted: bool) -> Window {
        let defaults = &self.agent_defaults();
        let smallest =
            models.iter().filter_map(|model| self.catalogue().model(model)).map(|info| info.context_window);
        let tokens = smallest.min().map_or(USUAL_WINDOW, u64::from);
        let (compaction, pruning) = (&defaults.compaction, &defaults.context_pruning);
        let flush = compaction.memory_flush.enabled.then(|| Flush {
            soft: u64::from(compaction.memory_flush.soft_threshold_tokens),
            prompt: compaction.memory_flush.prompt.clone(),
        });
        Window {
            tokens,
            reserve: u64::from(compaction.reserve_tokens_floor),
            keep_recent: KEEP_RECENT.min(tokens / 4),
            flush,
            pruning: Pruning {
                mode: match pruning.mode {
                    // What strangers had tools fetch is not carried along for ever.
                    schema::PruningMode::Off if untrusted => PruningMode::CacheTtl,
                    schema::PruningMode::Off => PruningMode::Off,
                    schema::PruningMode::CacheTtl => PruningMode::CacheTtl,
                    schema::PruningMode::Size => PruningMode::Size,
                },
                ttl: Duration::from_millis(tidegate_config::duration_ms(&pruning.ttl).unwrap_or(300_000)),
                keep_assistants: usize::try_from(pruning.keep_last_assistants).unwrap_or(usize::MAX),
                untrusted,
            },
        }
    }
}
