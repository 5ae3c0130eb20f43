//! A world in memory that a run takes place in: it can be cut off anywhere and begun again.

mod brought;
mod crashes;
mod joining;
mod rounds;
mod window;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use futures_util::stream;
use serde_json::json;
use tidegate_models::{Failure, FailureKind, Model, ModelEvent, ModelStream, Request, ToolSpec};
use tidegate_protocol::{
    Block, Compaction, Entry, EntryBody, Id as _, InstanceId, JoinMode, Limits, Message, Origin,
    RunEventBody, RunId, RunSpec, Scope, SessionId, SessionKey, StopReason, ToolCall, ToolMeta, ToolResult,
    ToolRunId, ToolRunState, Usage,
};
use tidegate_runtime::Clock;
use tidegate_storage::{
    Absorb, Absorbed, Context, ContextLimits, Fence, Journal, Lease, NewCall, NewCompaction, NewPart, Owner,
    Step, StoreError, ToolRunRow,
};

use super::*;
use crate::context::{Pruning, PruningMode, Scene};
use crate::desk::Afford;
use crate::toolbox::{ReadyCall, Recalled, Verdict};

/// What a model says to a request.
type Mind = Box<dyn Fn(&Request) -> Said + Send + Sync>;

/// One answer of the model.
#[derive(Default, Clone)]
pub(super) struct Said {
    text: &'static str,
    calls: Vec<(&'static str, &'static str)>,
    tokens: u64,
    fails: Option<FailureKind>,
}

fn says(text: &'static str) -> Said {
    Said { text, ..Said::default() }
}

/// Calls each tool once, with ids made of the words.
fn calls(calls: &[(&'static str, &'static str)]) -> Said {
    Said { calls: calls.to_vec(), ..Said::default() }
}

#[derive(Default)]
struct State {
    log: Vec<Entry>,
    tool_runs: Vec<ToolRunRow>,
    /// What tools have really done.
    effects: Vec<String>,
    queued: VecDeque<(Option<JoinMode>, &'static str)>,
    summary: Option<Entry>,
    floor: i64,
    flushed: bool,
    events: Vec<RunEventBody>,
    requests: Vec<Request>,
    commits: Vec<String>,
    parts: Vec<String>,
    /// What is found out about a call that was cut off.
    recalled: Option<Recalled>,
    /// There is money for what was reserved with the run, and for nothing more.
    broke: bool,
    /// Operations that still work; the next one is the last thing that happens.
    fuse: Option<usize>,
    now: i64,
}

/// What outlives every attempt.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<State>>);

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Cuts everything off when the operations are used up.
    fn burn(&self) -> Result<(), StoreError> {
        let mut state = self.state();
        state.now += 1;
        match &mut state.fuse {
            Some(0) => Err(StoreError::Internal("killed".to_owned())),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

pub(super) struct World {
    shared: Shared,
    mind: Mind,
    specs: Vec<ToolSpec>,
}

impl World {
    fn new(mind: impl Fn(&Request) -> Said + Send + Sync + 'static) -> Self {
        let spec = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        };
        let specs = ["look", "write"].map(spec).to_vec();
        Self { shared: Shared::default(), mind: Box::new(mind), specs }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    fn burn(&self) -> Result<(), StoreError> {
        self.shared.burn()
    }

    /// One attempt of the run.
    async fn attempt(&self, attempt: u32) -> Result<Outcome, StoreError> {
        self.attempt_of(&turn(attempt)).await
    }

    async fn attempt_of(&self, turn: &Turn) -> Result<Outcome, StoreError> {
        run(turn, Parts { model: self, journal: self, tools: self, desk: self, clock: self }).await
    }

    /// What a restart does with what it finds.
    fn restart(&self) {
        let mut state = self.state();
        state.fuse = None;
        for tool in &mut state.tool_runs {
            if tool.state == ToolRunState::Intended {
                tool.state = ToolRunState::Interrupted;
            }
        }
    }

    /// Commits the end, as the engine does.
    fn finish(&self, outcome: &Outcome) -> String {
        let Outcome::Answered(answer) = outcome else { panic!("{outcome:?}") };
        for entry in &answer.entries {
            self.append(entry.body.clone());
        }
        answer.text.clone()
    }

    fn append(&self, body: EntryBody) -> i64 {
        let mut state = self.state();
        let seq = i64::try_from(state.log.len()).unwrap() + 1;
        let at = u64::try_from(seq).unwrap();
        state.log.push(Entry {
            session_id: SessionId::from_parts(0, [0; 10]),
            seq,
            id: tidegate_protocol::EntryId::from_parts(at, [0; 10]),
            parent_id: None,
            run_id: run_id(),
            created_at: seq,
            body,
        });
        seq
    }

    /// The log in short: who said what.
    fn log(&self) -> Vec<String> {
        self.state().log.iter().map(|entry| short(&entry.body)).collect()
    }
}

fn short(body: &EntryBody) -> String {
    match body {
        EntryBody::Message(Message::User { .. }) => format!("user {}", body.message().unwrap().text()),
        EntryBody::Message(message @ Message::Assistant { .. }) => {
            let calls: Vec<String> = calls_of(message).into_iter().map(|call| call.id).collect();
            format!("agent {}[{}]", message.text(), calls.join(" "))
        }
        EntryBody::Message(message @ Message::ToolResult { tool_call_id, .. }) => {
            format!("result {tool_call_id}: {}", message.text())
        }
        EntryBody::Compaction(Compaction { first_kept_seq, .. }) => format!("summary from {first_kept_seq}"),
        EntryBody::Unknown(_) => "unknown".to_owned(),
    }
}

fn run_id() -> RunId {
    RunId::from_parts(7, [7; 10])
}

fn turn(attempt: u32) -> Turn {
    let scope = Scope::personal("main".parse().unwrap());
    Turn {
        lease: Lease {
            key: SessionKey::named(scope, "main"),
            run: run_id(),
            session: SessionId::from_parts(0, [0; 10]),
            alias: None,
            owner: Owner { instance: InstanceId::from_parts(0, [0; 10]), incarnation: i64::from(attempt) },
            fence: Fence(i64::from(attempt)),
            attempt,
            worked_ms: 0,
            refusal: None,
            over_budget: Vec::new(),
        },
        spec: RunSpec::new("", Vec::new(), Limits::new(1_000, u32::MAX)),
        input: Message::user("do it", 0),
        manual: None,
        scene: Scene::default(),
        window: Window {
            tokens: 100_000,
            reserve: 20_000,
            keep_recent: 5_000,
            flush: None,
            pruning: Pruning {
                mode: PruningMode::Off,
                ttl: std::time::Duration::ZERO,
                keep_assistants: 3,
                untrusted: false,
            },
        },
    }
}

impl Clock for World {
    fn now_ms(&self) -> i64 {
        self.state().now
    }
}

impl Model for World {
    fn stream(&self, request: Request) -> ModelStream {
        let said = (self.mind)(&request);
        self.state().requests.push(request);
        let name = || "fake".to_owned();
        let (api, provider, model, route, stage) = (name(), name(), name(), name(), name());
        let origin = Origin { api, provider, model, profile_id: None, route, stage };
        let mut events = vec![ModelEvent::Start(origin)];
        let mut index = 0;
        if !said.text.is_empty() {
            let letters =
                said.text.chars().map(|letter| ModelEvent::TextDelta { index, text: letter.to_string() });
            events.extend(letters);
            events.push(ModelEvent::BlockEnd { index, block: Block::text(said.text) });
            index += 1;
        }
        for (name, id) in &said.calls {
            let (id, name) = ((*id).to_owned(), (*name).to_owned());
            let block = Block::ToolCall { id, name, arguments: json!({}), thought_signature: None };
            events.push(ModelEvent::BlockEnd { index, block });
            index += 1;
        }
        if said.tokens > 0 {
            events.push(ModelEvent::Usage(Usage { input: said.tokens, ..Usage::default() }));
        }
        events.push(match said.fails {
            Some(kind) => ModelEvent::Failed(Failure::new(kind, "no")),
            None => ModelEvent::Done(StopReason::Stop),
        });
        Box::pin(stream::iter(events))
    }
}

#[async_trait]
impl Journal for World {
    async fn step(&self, _: &Lease, step: Step) -> Result<i64, StoreError> {
        self.burn()?;
        let ids = |ids: Vec<String>| ids.join(" ");
        let of_run = |id: ToolRunId| {
            let state = self.state();
            let found = state.tool_runs.iter().find(|tool| tool.id == id);
            found.map(|tool| tool.call_id.clone()).unwrap()
        };
        let ended = ids(step.ended.iter().map(|outcome| of_run(outcome.tool_run)).collect());
        let begun = ids(step.begun.iter().map(|tool| tool.call_id.clone()).collect());
        self.state().commits.push(format!("-{ended} +{begun}"));
        for outcome in step.ended {
            let mut state = self.state();
            let tool = state.tool_runs.iter_mut().find(|tool| tool.id == outcome.tool_run).unwrap();
            assert_eq!(tool.state, ToolRunState::Intended, "ended twice");
            (tool.state, tool.result) = (outcome.state, Some(outcome.result));
        }
        for entry in step.entries {
            self.append(entry.body);
        }
        for tool in step.begun {
            self.state().tool_runs.push(ToolRunRow {
                id: tool.id,
                call_id: tool.call_id,
                tool_name: tool.tool_name,
                args: tool.args,
                result: None,
                state: ToolRunState::Intended,
                created_at: 0,
            });
        }
        let parts = step.parts.into_iter().map(|part| part.body);
        self.state().parts.extend(parts);
        let head = i64::try_from(self.state().log.len()).unwrap();
        self.burn()?;
        Ok(head)
    }

    async fn context(&self, _: &Lease, _: ContextLimits) -> Result<Context, StoreError> {
        let state = self.state();
        let entries = state
            .log
            .iter()
            .filter(|entry| entry.seq > state.floor && !matches!(entry.body, EntryBody::Compaction(_)));
        let summed_up = state.log.iter().filter(|entry| entry.seq <= state.floor && entry.run_id == run_id());
        Ok(Context {
            summed_up: summed_up.filter(|entry| entry.body.message().is_some()).cloned().collect(),
            summary: state.summary.clone(),
            entries: entries.cloned().collect(),
            flushed: state.flushed,
            begun: state.log.iter().any(|entry| entry.run_id == run_id() && entry.body.message().is_some()),
            ..Context::default()
        })
    }

    async fn steps(&self, _: &Lease) -> Result<Vec<ToolRunRow>, StoreError> {
        Ok(self.state().tool_runs.clone())
    }

    async fn compact(&self, _: &Lease, new: NewCompaction) -> Result<i64, StoreError> {
        self.burn()?;
        let first = new.compaction.first_kept_seq;
        let seq = self.append(EntryBody::Compaction(new.compaction));
        let mut state = self.state();
        assert!(first > state.floor && first <= seq, "the floor only rises");
        state.floor = first - 1;
        state.summary = state.log.last().cloned();
        state.flushed = false;
        drop(state);
        self.burn()?;
        Ok(seq)
    }

    async fn absorb(&self, _: &Lease, wish: Absorb) -> Result<Vec<Absorbed>, StoreError> {
        self.burn()?;
        let mut taken = Vec::new();
        loop {
            let next = {
                let mut state = self.state();
                let fits = state.queued.front().is_some_and(|(waiting, _)| fits(*waiting, wish.mode));
                if fits { state.queued.pop_front() } else { None }
            };
            let Some((_, text)) = next else { break };
            let input = Message::user(text, self.now_ms());
            self.append(EntryBody::Message(input.clone()));
            taken.push(Absorbed { run: RunId::from_parts(9, [9; 10]), input });
        }
        if !taken.is_empty() {
            let said = wish.parts.into_iter().map(|part| part.body);
            self.state().parts.extend(said);
        }
        self.burn()?;
        Ok(taken)
    }

    async fn is_joined(&self, _: &Lease, mode: JoinMode) -> Result<bool, StoreError> {
        let state = self.state();
        Ok(state.queued.front().is_some_and(|(waiting, _)| fits(*waiting, mode)))
    }

    async fn note_flush(&self, _: &Lease, _: i64) -> Result<bool, StoreError> {
        Ok(!std::mem::replace(&mut self.state().flushed, true))
    }
}

#[async_trait]
impl ToolBox for World {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    fn takes_notes(&self) -> bool {
        false
    }

    fn only_looks(&self, tool: &str) -> bool {
        tool == "look"
    }

    async fn permit_note(&self, call: ToolCall) -> Result<Verdict, ToolBoxError> {
        Ok(Verdict::Answered(failed(&call.name, "no notes here")))
    }

    async fn recall(&self, _: &ToolCall, _: i64) -> Result<Recalled, ToolBoxError> {
        Ok(self.state().recalled.clone().unwrap_or(Recalled::Unknown))
    }

    async fn permit(&self, call: ToolCall) -> Result<Verdict, ToolBoxError> {
        if call.name == "forbidden" {
            return Ok(Verdict::Answered(failed(&call.name, "not permitted")));
        }
        Ok(Verdict::Ready(Box::new(Calling { shared: self.shared.clone(), call })))
    }
}

/// A call of the world's own tools.
struct Calling {
    shared: Shared,
    call: ToolCall,
}

#[async_trait]
impl ReadyCall for Calling {
    async fn run(self: Box<Self>) -> Result<ToolResult, ToolBoxError> {
        self.shared.burn()?;
        self.shared.state().effects.push(self.call.id.clone());
        tokio::task::yield_now().await;
        self.shared.burn()?;
        Ok(result(&self.call.name, &format!("did {}", self.call.id)))
    }
}

#[async_trait]
impl Desk for World {
    fn emit(&self, event: RunEventBody) {
        self.state().events.push(event);
    }

    fn charge(&self, _: &'static str) {}

    fn calls(&self) -> Vec<NewCall> {
        Vec::new()
    }

    fn booked(&self, _: &[NewCall]) {}

    fn is_limited(&self) -> bool {
        self.state().broke
    }

    async fn afford(&self, _: u64) -> Result<Afford, StoreError> {
        let error = ErrorBody::new(tidegate_protocol::ErrorCode::BudgetExceeded, "no more");
        Ok(if self.state().broke { Afford::No(error) } else { Afford::Whole })
    }

    fn is_joined(&self, mode: JoinMode) -> bool {
        let state = self.state();
        state.queued.iter().any(|(waiting, _)| fits(*waiting, mode))
    }

    fn catches_up(&self) {}

    async fn parts(&self, text: &str) -> Vec<NewPart> {
        vec![NewPart {
            id: tidegate_protocol::OutboxId::from_parts(0, [0; 10]),
            channel: "local".parse().unwrap(),
            account_id: String::new(),
            lane: String::new(),
            body: text.to_owned(),
        }]
    }
}

/// Whether a message that waits is read now.
fn fits(waiting: Option<JoinMode>, mode: JoinMode) -> bool {
    match (waiting, mode) {
        (None, _) => false,
        (Some(_), JoinMode::FollowUp) => true,
        (Some(waiting), JoinMode::Note) => waiting != JoinMode::FollowUp,
        (Some(waiting), JoinMode::Steer) => waiting == JoinMode::Steer,
    }
}

fn result(tool: &str, text: &str) -> ToolResult {
    ToolResult {
        ok: true,
        content: vec![Block::text(text)],
        data: None,
        error: None,
        meta: ToolMeta { tool: tool.to_owned(), duration_ms: 0, truncated: false },
    }
}

/// How many results stand behind the last thing a person said.
fn results_since_user(request: &Request) -> usize {
    let messages = request.messages.iter().rev();
    messages
        .take_while(|message| !matches!(message, Message::User { .. }))
        .filter(|message| matches!(message, Message::ToolResult { .. }))
        .count()
}
