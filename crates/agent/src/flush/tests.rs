//! Notes before a conversation is summed up: when, by what, and seen by nobody.

use std::sync::Mutex;

use async_trait::async_trait;
use futures_util::stream;
use proptest::prelude::*;
use serde_json::Value;
use tidegate_models::{Failure, FailureKind, Model, ModelEvent, ModelStream, ToolSpec};
use tidegate_protocol::{
    Block, ErrorBody, ErrorCode, Id as _, InstanceId, JoinMode, Origin, RunEventBody, RunId, Scope,
    SessionId, SessionKey, StopReason, ToolMeta,
};
use tidegate_runtime::Clock;
use tidegate_storage::{
    Absorb, Absorbed, Context, ContextLimits, Fence, Journal, NewCall, NewCompaction, NewPart, Owner,
    ToolRunRow,
};

use super::*;
use crate::context::{Pruning, PruningMode};
use crate::desk::{Afford, Desk};
use crate::run::Flush;
use crate::toolbox::{ReadyCall, ToolBox};

/// 2026-11-16T23:30Z.
const LATE: i64 = 1_794_871_800_000;

/// Answers with these blocks, one list a call; fails when there are no more.
#[derive(Default)]
struct Scripted {
    answers: Mutex<Vec<Vec<Block>>>,
    asked: Mutex<Vec<Request>>,
}

impl Scripted {
    fn new(answers: Vec<Vec<Block>>) -> Self {
        Self { answers: Mutex::new(answers), asked: Mutex::default() }
    }
}

impl Model for Scripted {
    fn stream(&self, request: Request) -> ModelStream {
        self.asked.lock().unwrap().push(request);
        let mut answers = self.answers.lock().unwrap();
        if answers.is_empty() {
            let failure = Failure::new(FailureKind::Broken, "no more");
            return Box::pin(stream::iter([ModelEvent::Failed(failure)]));
        }
        let origin = Origin {
            api: "fake".into(),
            provider: "fake".into(),
            model: "fake".into(),
            profile_id: None,
            route: "fake".into(),
            stage: "fake".into(),
        };
        let ends = answers.remove(0).into_iter().enumerate();
        let ends = ends.map(|(index, block)| ModelEvent::BlockEnd { index, block });
        let end = std::iter::once(ModelEvent::Done(StopReason::Stop));
        let events: Vec<_> = std::iter::once(ModelEvent::Start(origin)).chain(ends).chain(end).collect();
        Box::pin(stream::iter(events))
    }
}

/// Everything else that a flush works with, and what it saw.
#[derive(Default)]
struct World {
    specs: Vec<ToolSpec>,
    flushed: Mutex<bool>,
    refuses: bool,
    shadow: bool,
    broke: bool,
    saw: Mutex<Vec<String>>,
    emitted: Mutex<Vec<RunEventBody>>,
    ids: Mutex<Vec<ToolRunId>>,
}

impl World {
    fn new() -> Self {
        Self { specs: vec![spec("read"), spec(MEMORY_TOOL)], ..Self::default() }
    }

    fn note(&self, what: String) {
        self.saw.lock().unwrap().push(what);
    }

    async fn flush(&self, model: &Scripted, prompt: Option<&str>) -> Flushed {
        let request = Request {
            system: vec!["be kind".into()],
            messages: vec![Message::user("hello", 1)],
            tools: self.specs.clone(),
            session_name: "s".into(),
            ..Request::default()
        };
        let parts = Parts { model, journal: self, tools: self, desk: self, clock: self };
        let lease = lease();
        let quiet = Quiet::new(parts, &lease, "flush");
        let flushing = Flushing { quiet: &quiet, lease: &lease, request, prompt, zone: "UTC" };
        flush(flushing, parts).await.unwrap()
    }

    fn saw(&self) -> Vec<String> {
        self.saw.lock().unwrap().clone()
    }
}

fn lease() -> Lease {
    Lease {
        key: SessionKey::named(Scope::personal("main".parse().unwrap()), "main"),
        run: RunId::from_parts(1, [0; 10]),
        session: SessionId::from_parts(1, [0; 10]),
        alias: None,
        owner: Owner { instance: InstanceId::from_parts(1, [0; 10]), incarnation: 1 },
        fence: Fence(1),
        attempt: 1,
        worked_ms: 0,
        refusal: None,
        over_budget: Vec::new(),
    }
}

fn spec(name: &str) -> ToolSpec {
    ToolSpec { name: name.into(), description: String::new(), parameters: json!({ "type": "object" }) }
}

fn call(id: &str, name: &str) -> Block {
    let arguments = json!({ "text": "likes tea" });
    Block::ToolCall { id: id.into(), name: name.into(), arguments, thought_signature: None }
}

impl Clock for World {
    fn now_ms(&self) -> i64 {
        LATE
    }
}

#[async_trait]
impl Desk for World {
    fn emit(&self, event: RunEventBody) {
        self.emitted.lock().unwrap().push(event);
    }

    fn charge(&self, purpose: &'static str) {
        self.note(format!("charge {purpose}"));
    }

    fn calls(&self) -> Vec<NewCall> {
        Vec::new()
    }

    fn booked(&self, _calls: &[NewCall]) {}

    fn catches_up(&self) {}

    fn is_limited(&self) -> bool {
        self.broke
    }

    async fn afford(&self, _tokens: u64) -> tidegate_storage::Result<Afford> {
        let error = ErrorBody::new(ErrorCode::BudgetExceeded, "no more");
        Ok(if self.broke { Afford::No(error) } else { Afford::Whole })
    }

    fn is_joined(&self, _mode: JoinMode) -> bool {
        false
    }

    async fn parts(&self, text: &str) -> Vec<NewPart> {
        self.note(format!("part {text}"));
        Vec::new()
    }
}

#[async_trait]
impl Journal for World {
    async fn step(&self, _lease: &Lease, step: Step) -> tidegate_storage::Result<i64> {
        assert!(step.entries.is_empty() && step.parts.is_empty(), "nothing joins the log");
        for begun in step.begun {
            self.ids.lock().unwrap().push(begun.id);
            self.note(format!("intend {} {}", begun.call_id, begun.tool_name));
        }
        for ended in step.ended {
            assert!(self.ids.lock().unwrap().contains(&ended.tool_run));
            self.note(format!("end {:?}", ended.state));
        }
        Ok(1)
    }

    async fn context(&self, _: &Lease, _: ContextLimits) -> tidegate_storage::Result<Context> {
        Ok(Context::default())
    }

    async fn steps(&self, _: &Lease) -> tidegate_storage::Result<Vec<ToolRunRow>> {
        Ok(Vec::new())
    }

    async fn compact(&self, _: &Lease, _: NewCompaction) -> tidegate_storage::Result<i64> {
        Ok(1)
    }

    async fn absorb(&self, _: &Lease, _: Absorb) -> tidegate_storage::Result<Vec<Absorbed>> {
        Ok(Vec::new())
    }

    async fn is_joined(&self, _: &Lease, _: JoinMode) -> tidegate_storage::Result<bool> {
        Ok(false)
    }

    async fn note_flush(&self, _: &Lease, _: i64) -> tidegate_storage::Result<bool> {
        Ok(!std::mem::replace(&mut *self.flushed.lock().unwrap(), true))
    }
}

#[async_trait]
impl ToolBox for World {
    fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    fn takes_notes(&self) -> bool {
        // Where nothing can be written there are no tools either.
        !self.specs.is_empty()
    }

    fn only_looks(&self, _tool: &str) -> bool {
        false
    }

    async fn permit(&self, _call: ToolCall) -> Result<Verdict, ToolBoxError> {
        unreachable!("a flush asks for notes only")
    }

    async fn permit_note(&self, call: ToolCall) -> Result<Verdict, ToolBoxError> {
        self.note(format!("permit {} {}", call.id, call.name));
        if self.refuses {
            return Ok(Verdict::Answered(failed(&call.name, "not permitted")));
        }
        Ok(Verdict::Ready(Box::new(Ready { args: call.args, shadow: self.shadow })))
    }
}

struct Ready {
    args: Value,
    shadow: bool,
}

#[async_trait]
impl ReadyCall for Ready {
    fn is_shadow(&self) -> bool {
        self.shadow
    }

    async fn run(self: Box<Self>) -> Result<ToolResult, ToolBoxError> {
        let content = vec![Block::text(format!("noted {}", self.args["text"]))];
        let meta = ToolMeta { tool: MEMORY_TOOL.into(), duration_ms: 1, truncated: false };
        Ok(ToolResult { ok: true, content, data: None, error: None, meta })
    }
}

fn window(tokens: u64, reserve: u64, soft: u64) -> Window {
    let pruning =
        Pruning { mode: PruningMode::Off, ttl: Duration::from_mins(5), keep_assistants: 3, untrusted: false };
    Window { tokens, reserve, keep_recent: 20_000, flush: Some(Flush { soft, prompt: None }), pruning }
}

#[test]
fn it_is_time_beyond_the_line_and_once_a_cycle() {
    let usual = window(200_000, 20_000, 4_000);
    assert!(!is_due(176_000, &usual, false, true));
    assert!(is_due(176_001, &usual, false, true));
    assert!(!is_due(176_001, &usual, false, false), "a workspace that cannot be written to");
    assert!(!is_due(199_999, &usual, true, true));
    assert!(!is_due(u64::MAX, &Window { flush: None, ..usual }, false, true));
    assert!(!is_due(u64::MAX, &window(5_000, 20_000, 4_000), false, true), "no room for it");
}

#[test]
fn in_a_small_window_a_quarter_is_kept_free_and_notes_come_before_the_summary() {
    for (tokens, notes, summary) in [
        (16_000, 8_000, 12_000),
        (24_000, 14_000, 18_000),
        (32_000, 20_000, 24_000),
        (200_000, 176_000, 180_000),
    ] {
        let window = window(tokens, 20_000, 4_000);
        assert_eq!((window.flush_line(), window.line()), (Some(notes), summary), "{tokens}");
    }
    assert_eq!(window(16_000, 900_000, 4_000).line(), 12_000, "however much is to be kept free");
}

proptest! {
    #[test]
    fn no_window_has_it_due_with_nothing_said(tokens: u64, reserve: u64, soft: u64) {
        prop_assert!(!is_due(0, &window(tokens, reserve, soft), false, true));
    }
}

#[tokio::test]
async fn notes_are_written_and_nobody_hears_of_it() {
    let world = World::new();
    let model = Scripted::new(vec![
        vec![Block::text("I write this down."), call("c1", MEMORY_TOOL)],
        vec![Block::text("Here is what I noted!")],
    ]);
    assert_eq!(world.flush(&model, None).await, Flushed { calls: 2, wrote: true });
    let expected = [
        "charge flush",
        "permit flush:c1 memory_append",
        "intend flush:c1 memory_append",
        "end Succeeded",
        "charge flush",
    ];
    assert_eq!(world.saw(), expected);
    assert!(world.emitted.lock().unwrap().is_empty());
    let asked = model.asked.lock().unwrap();
    let names: Vec<_> = asked[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["read", MEMORY_TOOL]);
    // The day stands in the last message only, and what came before it is what the run would send.
    assert_eq!(
        (asked[0].system.as_slice(), &asked[0].messages[0]),
        (&["be kind".to_owned()][..], &Message::user("hello", 1))
    );
    let prompt = asked[0].messages[1].text();
    assert!(prompt.contains(NO_REPLY) && prompt.contains("2026-11-16.md"), "{prompt}");
    assert_eq!(asked[1].messages[..2], asked[0].messages[..]);
    let Message::ToolResult { tool_call_id, is_error, .. } = &asked[1].messages[3] else {
        panic!("{asked:?}")
    };
    assert_eq!((tool_call_id.as_str(), *is_error), ("c1", false));
}

#[tokio::test]
async fn a_second_flush_of_the_cycle_asks_nobody() {
    let world = World::new();
    let quiet = || Scripted::new(vec![vec![Block::text(NO_REPLY)]]);
    assert_eq!(world.flush(&quiet(), None).await, Flushed { calls: 1, wrote: false });
    assert_eq!(world.flush(&quiet(), None).await, Flushed { calls: 0, wrote: false });
}

#[tokio::test]
async fn only_the_memory_tool_is_run() {
    let world = World::new();
    let many = (0..20).map(|n| call(&format!("m{n}"), MEMORY_TOOL)).collect();
    let model = Scripted::new(vec![vec![call("c1", "exec"), call("c2", "write")], many, vec![]]);
    assert_eq!(world.flush(&model, None).await, Flushed { calls: 3, wrote: true });
    let saw = world.saw();
    assert!(!saw.iter().any(|what| what.ends_with("exec") || what.ends_with("write")), "{saw:?}");
    assert_eq!(saw.iter().filter(|what| what.starts_with("intend")).count(), CALLS);
    let asked = model.asked.lock().unwrap();
    let answers = asked[1].messages.iter().filter(|message| matches!(message, Message::ToolResult { .. }));
    assert!(answers.clone().all(|answer| answer.text() == "not run: only memory_append can be called now"));
    assert_eq!(answers.count(), 2);
    let answers = asked[2].messages.iter().filter(|message| matches!(message, Message::ToolResult { .. }));
    assert_eq!(answers.count(), 22, "every call has its result");
}

#[tokio::test]
async fn it_ends_after_three_rounds() {
    let world = World::new();
    let model = Scripted::new((0..9).map(|n| vec![call(&format!("c{n}"), MEMORY_TOOL)]).collect());
    assert_eq!(world.flush(&model, None).await, Flushed { calls: 3, wrote: true });
}

#[tokio::test]
async fn a_model_that_fails_costs_the_notes_and_nothing_else() {
    let world = World::new();
    assert_eq!(world.flush(&Scripted::default(), None).await, Flushed { calls: 1, wrote: false });
    assert_eq!(world.saw(), ["charge flush"]);
}

#[tokio::test]
async fn notes_that_nobody_can_pay_for_are_not_asked_for() {
    let world = World { broke: true, ..World::new() };
    let model = Scripted::new(vec![vec![call("c1", MEMORY_TOOL)]]);
    assert!(!world.flush(&model, None).await.wrote);
    assert!(model.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_was_refused_or_only_shown_was_not_written() {
    let answers = || Scripted::new(vec![vec![call("c1", MEMORY_TOOL)], vec![Block::text(NO_REPLY)]]);
    let refusing = World { refuses: true, ..World::new() };
    assert_eq!(refusing.flush(&answers(), None).await, Flushed { calls: 2, wrote: false });
    assert!(!refusing.saw().iter().any(|what| what.starts_with("intend")));
    let shadow = World { shadow: true, ..World::new() };
    assert_eq!(shadow.flush(&answers(), None).await, Flushed { calls: 2, wrote: false });
    assert!(shadow.saw().contains(&"end Shadowed".to_owned()));
}

#[tokio::test]
async fn without_the_tool_nobody_is_asked_and_it_can_still_be_made_up_for() {
    let without = World { specs: Vec::new(), ..World::new() };
    assert_eq!(without.flush(&Scripted::default(), None).await, Flushed::default());
    assert!(!*without.flushed.lock().unwrap());
}

#[tokio::test]
async fn a_run_without_the_tool_sends_what_it_would_send_and_its_notes_are_written_down_for_it() {
    let world = World { specs: vec![spec("read")], ..World::new() };
    let said = "Let me see.\n- likes tea\n  - hates rain \nThat is all.";
    let model = Scripted::new(vec![vec![call("c1", "read")], vec![Block::text(said)]]);
    assert_eq!(world.flush(&model, None).await, Flushed { calls: 2, wrote: true });
    let asked = model.asked.lock().unwrap();
    assert!(asked.iter().all(|request| request.tools == world.specs), "the list of tools is as it was");
    assert_eq!(asked[0].messages[0], Message::user("hello", 1));
    let prompt = asked[0].messages[1].text();
    assert!(prompt.contains(IN_WORDS) && prompt.contains(NO_REPLY), "{prompt}");
    assert!(!prompt.contains(MEMORY_TOOL), "{prompt}");
    let expected = [
        "charge flush",
        "charge flush",
        "permit flush:words memory_append",
        "intend flush:words memory_append",
    ];
    assert_eq!(world.saw()[..4], expected);
}

#[test]
fn only_lines_that_are_notes_are_taken_from_an_answer_in_words() {
    let noted = |text: &str| in_note(text).map(|call| call.args["text"].as_str().unwrap().to_owned());
    assert_eq!(noted("- a\ntalk\n  - b"), Some("- a\n- b".to_owned()));
    for nothing in ["", "NO_REPLY", "There is nothing to note.", "-", "- ", "-not one"] {
        assert_eq!(noted(nothing), None, "{nothing:?}");
    }
    assert_eq!(noted(&format!("- {}", "x".repeat(9_000))).unwrap().len(), LONGEST);
}

#[test]
fn long_notes_are_cut_between_notes_and_fit_the_tool_in_any_script() {
    let note = format!("- {}", "他喜欢喝茶。".repeat(20));
    let said = vec![note.as_str(); 40].join("\n");
    let taken = in_note(&said).unwrap().args["text"].as_str().unwrap().to_owned();
    assert!(taken.len() <= LONGEST && taken.len() + note.len() + 1 > LONGEST, "{}", taken.len());
    assert!(taken.lines().all(|line| line == note), "{taken}");
    let endless = in_note(&format!("- {}", "茶".repeat(9_000))).unwrap();
    let endless = endless.args["text"].as_str().unwrap();
    assert!(endless.ends_with('茶') && (LONGEST - 3..=LONGEST).contains(&endless.len()), "{}", endless.len());
}

#[test]
fn a_prompt_of_ones_own_still_allows_silence() {
    let day = "2026-11-16";
    let own = asked(Some("Write notes."), day, false);
    assert!(own.starts_with("Write notes.\nWhen there is nothing to do, answer NO_REPLY."), "{own}");
    let knows = asked(Some("Write notes or NO_REPLY."), day, false);
    assert_eq!(knows.matches(NO_REPLY).count(), 1);
    assert!(asked(Some("  "), day, false).starts_with(PROMPT));
    let in_words = asked(Some("Write notes."), day, true);
    assert!(in_words.starts_with(&format!("Write notes.\n{IN_WORDS}\nWhen there is nothing")), "{in_words}");
}
