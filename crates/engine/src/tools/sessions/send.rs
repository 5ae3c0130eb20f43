//! `sessions_send`: a message to another conversation, and its answer if that comes soon.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_policy::{Permitted, Preparation, Prepared};
use tidegate_protocol::{Lane, Place as Where, ReplyTarget, Risk, RunId, RunSpec, SessionKey, ToolUse};
use tidegate_storage::{RunFilter, RunRow, SessionChoice};
use tidegate_tools::{Output, Place, Tool, ToolFailure, ToolSpec, Work, fence};

use super::caller::{Caller, failure, unknown};
use super::{beginning, call_key, cleans_up, read};
use crate::live::{Answer, RunEnd};
use crate::settings::Wish;
use crate::start::{Core, Engine};
use crate::submit::{Follower, Request};

pub(super) const NAME: &str = "sessions_send";

const USUAL_WAIT: u32 = 30;
/// Characters of an answer; the rest is in its own log.
const LONGEST: usize = 16_000;
/// Conversations that write to one another, one after the other, before it is enough.
const MOST_HOPS: u8 = 5;
/// Runs of a conversation among which one is looked for that is older than a call.
const LOOKED_AT: u32 = 50;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    message: String,
    /// From sessions_list; or else label.
    session_key: Option<String>,
    /// The label of a subagent of this session, or a session's name.
    label: Option<String>,
    /// Whose session the label names.
    agent_id: Option<String>,
    /// How long to wait for the answer; 30 without it, 0 not at all.
    #[schemars(range(max = 3600))]
    timeout_seconds: Option<u32>,
}

impl Args {
    /// Whether the caller waits for the answer.
    fn waits(&self) -> bool {
        self.timeout_seconds != Some(0)
    }
}

pub(super) struct SessionsSend {
    spec: ToolSpec,
    core: Weak<Core>,
}

impl SessionsSend {
    pub(super) fn new(core: Weak<Core>) -> Self {
        let spec = ToolSpec {
            risk: Risk::Execute,
            idempotent: false,
            // It keeps its own time.
            timeout: None,
            ..ToolSpec::of::<Args>(NAME, "Sends a message to another session and waits for its answer.")
        };
        Self { spec, core }
    }
}

#[async_trait]
impl Tool for SessionsSend {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, args: &Value, place: &Place) -> Result<Preparation, ToolFailure> {
        let args: Args = read(args)?;
        if args.message.trim().is_empty() {
            return Err(ToolFailure::arguments("the message is empty"));
        }
        if args.session_key.is_none() && args.label.is_none() {
            return Err(ToolFailure::arguments("sessionKey or label is missing"));
        }
        Ok(Preparation { risk: Some(risk(&args, place)), ..Preparation::default() })
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        let args: Args = read(permitted.prepared().args())?;
        let caller = Caller::of(&self.core, permitted, work)?;
        let run = caller.run().await?;
        let key = target(&caller, &args).await?;
        check(&caller, &run, &key)?;
        let request = Request {
            principal: caller.principal(),
            key: key.clone(),
            session: SessionChoice::Current,
            ephemeral: false,
            text: text(&run, &args.message),
            // A command in it is words.
            commands: false,
            client_key: None,
            idempotency: Some(call_key(run.id, permitted.prepared().call())),
            spec: spec(&caller, &run, &key, args.waits()).await?,
            reply: ReplyTarget::Session,
            // It may do less than the run under way there, so it is a run of its own.
            join: None,
            patience: None,
        };
        let engine = Engine { core: Arc::clone(&caller.core) };
        let sent = engine.submit(request).await.map_err(failure)?;
        if !args.waits() {
            return Ok(accepted(&key, sent.run));
        }
        let wait = Duration::from_secs(args.timeout_seconds.unwrap_or(USUAL_WAIT).into());
        let answered = wait_for(&caller.core, run.id, sent.follower, wait).await;
        Ok(came_of(&key, sent.run, answered.as_ref()))
    }
}

/// Whether the conversation that a call wrote to is one that was there before and is not gone since, so that what was
/// accepted for it would still be there. With a conversation go all its runs, so an older one shows it. Conversations
/// that go by themselves are never sure.
pub(super) async fn still_has(caller: &Caller, prepared: &Prepared, begun_at: i64) -> bool {
    let Ok(args) = read::<Args>(prepared.args()) else { return false };
    let Ok(key) = target(caller, &args).await else { return false };
    let of_key = RunFilter { session: Some(key.clone()), limit: LOOKED_AT, ..RunFilter::default() };
    let runs = caller.runs(of_key).await.unwrap_or_default();
    was_there(&key, runs.iter().map(|run| run.created_at), begun_at)
}

fn was_there(key: &SessionKey, mut runs: impl Iterator<Item = i64>, begun_at: i64) -> bool {
    !cleans_up(key) && runs.any(|created_at| created_at <= begun_at)
}

/// What the call that started this run had answered, or would answer now.
pub(super) fn answered(row: &RunRow, prepared: &Prepared, end: Option<&RunEnd>) -> Output {
    let waits = read::<Args>(prepared.args()).is_ok_and(|args| args.waits());
    if waits { came_of(&row.key, row.id, end) } else { accepted(&row.key, row.id) }
}

fn accepted(key: &SessionKey, run: RunId) -> Output {
    status("accepted", key, run, "it will be read when its turn comes")
}

/// What is told of a message that was sent, with its answer if there is one by now.
fn came_of(key: &SessionKey, run: RunId, answered: Option<&RunEnd>) -> Output {
    match answered {
        None => status("timeout", key, run, "no answer yet; sessions_history shows it when it is there"),
        Some(Ok(answer)) => replied(key, run, answer),
        Some(Err(error)) => status("error", key, run, &error.message),
    }
}

/// A subagent of the same agent has less than whoever started it; another conversation may have more.
fn risk(args: &Args, place: &Place) -> Risk {
    let key = args.session_key.as_deref().and_then(|text| text.trim().parse::<SessionKey>().ok());
    let own = key.filter(|key| key.scope == place.requester.scope);
    match own.map(|key| key.place) {
        Some(Where::Sub { .. }) => Risk::Write,
        _ => Risk::Execute,
    }
}

/// Waits for the answer. Whoever waits leaves its place to others: the one that is to answer may need it.
async fn wait_for(core: &Core, caller: RunId, follower: Follower, most: Duration) -> Option<RunEnd> {
    let waiting = async move { tokio::time::timeout(most, follower.end()).await.ok() };
    match core.live.get(caller).and_then(|live| live.pace()) {
        Some(pace) => pace.wait(waiting).await,
        None => waiting.await,
    }
}

async fn target(caller: &Caller, args: &Args) -> Result<SessionKey, ToolFailure> {
    if let Some(text) = &args.session_key {
        return caller.resolve(text).await;
    }
    let label = args.label.as_deref().unwrap_or_default().trim();
    if let Some(agent) = args.agent_id.as_deref().map(str::trim).filter(|agent| !agent.is_empty()) {
        let agent =
            agent.parse().map_err(|_| ToolFailure::arguments(format!("there is no agent {agent:?}")))?;
        let scope = tidegate_protocol::Scope { agent, ..caller.scope.clone() };
        let key = SessionKey::named(scope, label);
        caller.check_visible(&key).await?;
        let known = caller.core.store.session(&key).await.map_err(failure)?;
        return known.map(|row| row.key).ok_or_else(|| unknown(label));
    }
    match caller.labelled(label).await? {
        Some(key) => Ok(key),
        None => caller.resolve(label).await,
    }
}

fn check(caller: &Caller, run: &RunRow, key: &SessionKey) -> Result<(), ToolFailure> {
    if run.key == *key {
        return Err(ToolFailure::execution("that is this very session: answer here instead"));
    }
    if caller.is_sensitive_itself() && !caller.is_sensitive(key) {
        return Err(ToolFailure::execution("what is said here must not leave this session"));
    }
    if run.spec.depth >= MOST_HOPS {
        return Err(ToolFailure::execution(format!(
            "{MOST_HOPS} sessions have written to one another already; answer without asking further"
        )));
    }
    Ok(())
}

/// The other side learns that no person wrote this.
fn text(run: &RunRow, message: &str) -> String {
    format!(
        "[Message from another agent session: {} of agent {}]\n\n{message}",
        run.key.label(),
        run.key.scope.agent
    )
}

/// What the conversation is promised for this message: its own models, no more tools than the sender was given, and no
/// side effects where the sender has none. One that somebody waits for has a lane of its own, so that a lane full of those
/// who wait cannot keep it from beginning.
async fn spec(caller: &Caller, run: &RunRow, key: &SessionKey, waits: bool) -> Result<RunSpec, ToolFailure> {
    let core = &caller.core;
    let chosen = core.store.session_settings(key).await.map_err(failure)?;
    let last = RunFilter { session: Some(key.clone()), limit: 1, ..RunFilter::default() };
    let last = caller.runs(last).await?.into_iter().next();
    let is_sub = matches!(key.place, Where::Sub { .. });
    let mut spec = if let Some(last) = last.as_ref().filter(|_| is_sub) {
        // A subagent goes on with the model it was started with.
        RunSpec { command: None, ..last.spec.clone() }
    } else {
        let usual = core.settings.run_spec(&key.scope, &Wish::default()).map_err(failure)?;
        core.settings.as_chosen(&key.scope, usual, &chosen)
    };
    spec.lane = waits.then_some(Lane::Nested);
    narrow(&mut spec.tools, &run.spec.tools);
    spec.tools.unattended |= run.spec.tools.unattended;
    spec.shadow |= run.spec.shadow;
    spec.depth = spec.depth.max(run.spec.depth.saturating_add(1));
    Ok(spec)
}

/// Leaves only what both were given. A list without entries is no list, so where nothing is left there are no calls.
fn narrow(tools: &mut ToolUse, given: &ToolUse) {
    let listed = |allow: &Option<Vec<String>>| allow.clone().filter(|allow| !allow.is_empty());
    tools.allow = match (listed(&tools.allow), listed(&given.allow)) {
        (Some(own), Some(given)) => {
            let both: Vec<String> = own.into_iter().filter(|tool| given.contains(tool)).collect();
            tools.model &= !both.is_empty();
            Some(both)
        }
        (own, given) => own.or(given),
    };
    tools.model &= given.model;
}

fn status(status: &str, key: &SessionKey, run: RunId, note: &str) -> Output {
    super::told(json!({ "status": status, "sessionKey": key.to_string(), "runId": run, "note": note }))
}

/// The answer is another conversation's words.
fn replied(key: &SessionKey, run: RunId, answer: &Answer) -> Output {
    let (reply, whole) = beginning(&answer.text, LONGEST);
    let data = json!({ "status": "ok", "sessionKey": key.to_string(), "runId": run, "reply": reply });
    let text = fence(&format!("session {}", key.label()), &reply);
    Output { truncated: !whole, ..Output::text(text).with_data(data) }
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::Scope;

    use super::*;

    #[test]
    fn that_a_message_was_not_sent_is_sure_only_where_the_conversation_outlived_the_call() {
        let scope = Scope::personal("main".parse().unwrap());
        let sub = |id: &str| SessionKey {
            scope: scope.clone(),
            place: Where::Sub { id: id.to_owned() },
            thread: None,
        };
        let named = SessionKey::named(scope.clone(), "b");
        for (key, runs, sure) in [
            (&named, vec![], false),
            // Deleted, and somebody wrote there since.
            (&named, vec![11, 12], false),
            (&named, vec![12, 10], true),
            (&sub("abc"), vec![9], true),
            (&sub("once-abc"), vec![9], false),
        ] {
            assert_eq!(was_there(key, runs.iter().copied(), 10), sure, "{key} {runs:?}");
        }
    }

    #[test]
    fn no_message_gives_its_reader_more_tools_than_its_sender_had() {
        let tools = |allow: Option<&[&str]>| ToolUse {
            allow: allow.map(|allow| allow.iter().map(|tool| (*tool).to_owned()).collect()),
            ..ToolUse::default()
        };
        let narrowed = |own: Option<&[&str]>, given: Option<&[&str]>| {
            let mut own = tools(own);
            narrow(&mut own, &tools(given));
            (own.allow.map(|allow| allow.join(" ")), own.model)
        };
        let listed = |text: &str| Some(text.to_owned());
        assert_eq!(narrowed(None, None), (None, true));
        assert_eq!(narrowed(None, Some(&["read"])), (listed("read"), true));
        assert_eq!(narrowed(Some(&["read", "ls"]), Some(&["ls", "exec"])), (listed("ls"), true));
        assert_eq!(narrowed(Some(&["read"]), Some(&[])), (listed("read"), true));
        assert_eq!(narrowed(Some(&["read"]), Some(&["exec"])), (listed(""), false));
    }
}
