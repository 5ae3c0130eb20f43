//! What pages of another gateway ask about things that there are none of here: plugins, boards, voices. The true answer is
//! an empty one, and a page that gets it goes on.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::answers::{DONE, Done, EmptyList, Null};
use crate::methods::Caller;
use crate::ws::frame::WireError;

/// Whatever a page says beside such a question: taken, and without a meaning here.
#[derive(Debug, Deserialize)]
pub(crate) struct About {}

impl JsonSchema for About {
    fn schema_name() -> Cow<'static, str> {
        "About".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": true })
    }
}

/// A question about one conversation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AboutOne {
    session_key: Option<String>,
}

/// A question about some.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AboutSome {
    session_keys: Option<Vec<String>>,
}

/// One line a question: the handler, and its answer with what stands in it.
macro_rules! quiet {
    ($($name:ident -> $answer:ident { $($field:ident: $kind:ty = $value:expr),+ $(,)? };)+) => {
        $(
            #[derive(Debug, Serialize, JsonSchema)]
            #[serde(rename_all = "camelCase")]
            pub(crate) struct $answer {
                $($field: $kind),+
            }

            pub(crate) async fn $name(_: Caller, _: About) -> Result<$answer, WireError> {
                Ok($answer { $($field: $value),+ })
            }
        )+
    };
}

quiet! {
    questions -> NoQuestions { questions: EmptyList = EmptyList };
    commands -> NoCommands { commands: EmptyList = EmptyList };
    suggestions -> NoSuggestions { suggestions: EmptyList = EmptyList };
    tasks -> NoTasks { tasks: EmptyList = EmptyList };
    projects -> NoProjects { projects: EmptyList = EmptyList, recents: EmptyList = EmptyList };
    groups -> NoGroups { groups: EmptyList = EmptyList, section_order: EmptyList = EmptyList };
    group_defaults -> NoGroupDefaults { defaults: EmptyList = EmptyList };
    catalogs -> NoCatalogs { catalogs: EmptyList = EmptyList };
    card -> NoCard { card: Null = Null };
    plugins -> NoPagePlugins { revision: u32 = 0, plugins: EmptyList = EmptyList, diagnostics: EmptyList = EmptyList };
    plugin_list -> NoPlugins {
        plugins: EmptyList = EmptyList, diagnostics: EmptyList = EmptyList, mutation_allowed: bool = false,
    };
    prefs -> NoPreferences { status: &'static str = "ok", entries: EmptyList = EmptyList };
    subscribed -> NothingWatched { subscribed: bool = true };
    discussion -> NoDiscussion { state: &'static str = "none" };
    companion -> NoCompanion { exchanges: EmptyList = EmptyList };
    talk -> NoVoices {
        modes: EmptyList = EmptyList, transports: EmptyList = EmptyList, brains: EmptyList = EmptyList,
        speech: NoProviders = NoProviders::default(), transcription: NoProviders = NoProviders::default(),
        realtime: NoProviders = NoProviders::default(),
    };
    github -> NoGithub {
        personal: Null = Null, shared: Null = Null, pending_personal: Null = Null, latest_shared: Null = Null,
    };
    update -> NoUpdate { sentinel: Null = Null, update_available: Null = Null };
    cron_list -> NoJobs {
        jobs: EmptyList = EmptyList, total: u32 = 0, offset: u32 = 0, limit: u32 = 50, has_more: bool = false,
        next_offset: Null = Null,
    };
    cron_status -> CronOff {
        enabled: bool = false, store_path: &'static str = "", jobs: u32 = 0, next_wake_at_ms: Null = Null,
    };
    skills -> NoSkills {
        workspace_dir: &'static str = "", managed_skills_dir: &'static str = "", skills: EmptyList = EmptyList,
    };
    voice_wake -> NoTriggers { triggers: EmptyList = EmptyList };
    bins -> NoBins { bins: EmptyList = EmptyList };
    branches -> NoBranches { branches: EmptyList = EmptyList };
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct NoProviders {
    providers: EmptyList,
}

/// What a page may offer in a conversation beside its messages.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct ChatMetadata {
    commands: EmptyList,
    models: EmptyList,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NoLogins {
    ts: i64,
    providers: EmptyList,
    provider_capabilities: EmptyList,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NoMentions {
    gateway_instance_id: String,
    revision: u32,
    items: EmptyList,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EmptyBoard {
    session_key: Option<String>,
    revision: u32,
    tabs: EmptyList,
    widgets: EmptyList,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Viewed {
    session_keys: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NoMembers {
    session_key: Option<String>,
    members: EmptyList,
    identities: EmptyList,
    role: &'static str,
    allowed_visibilities: EmptyList,
}

pub(crate) async fn nothing(_: Caller, _: About) -> Result<EmptyList, WireError> {
    Ok(EmptyList)
}

pub(crate) async fn ok(_: Caller, _: About) -> Result<Done, WireError> {
    Ok(DONE)
}

pub(crate) async fn no_heartbeat(_: Caller, _: About) -> Result<Null, WireError> {
    Ok(Null)
}

pub(crate) async fn metadata(_: Caller, _: About) -> Result<ChatMetadata, WireError> {
    Ok(ChatMetadata::default())
}

pub(crate) async fn auth_status(caller: Caller, _: About) -> Result<NoLogins, WireError> {
    let ts = caller.gate.shared.now();
    Ok(NoLogins { ts, providers: EmptyList, provider_capabilities: EmptyList })
}

pub(crate) async fn mentions(caller: Caller, _: About) -> Result<NoMentions, WireError> {
    let gateway_instance_id = caller.gate.shared.hub.boot.clone();
    Ok(NoMentions { gateway_instance_id, revision: 0, items: EmptyList })
}

pub(crate) async fn board(_: Caller, about: AboutOne) -> Result<EmptyBoard, WireError> {
    Ok(EmptyBoard { session_key: about.session_key, revision: 0, tabs: EmptyList, widgets: EmptyList })
}

pub(crate) async fn viewers(_: Caller, about: AboutSome) -> Result<Viewed, WireError> {
    Ok(Viewed { session_keys: about.session_keys.unwrap_or_default() })
}

pub(crate) async fn members(_: Caller, about: AboutOne) -> Result<NoMembers, WireError> {
    Ok(NoMembers {
        session_key: about.session_key,
        members: EmptyList,
        identities: EmptyList,
        role: "owner",
        allowed_visibilities: EmptyList,
    })
}
