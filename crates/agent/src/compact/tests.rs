//! Compaction as a whole: whatever the model that sums up does, there is something to go on with.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use proptest::prelude::*;
use tidegate_models::{BlockKind, Failure, FailureKind, Model, ModelEvent, ModelStream, Request};
use tidegate_protocol::{
    Block, Compaction, Entry, EntryBody, EntryId, FileTrail, Id as _, Message, Origin, RunId, SessionId,
    StopReason, Usage,
};

use super::summarise::Limits;
use super::{Job, compact, compact_within, estimated};
use crate::context::{Line, Pruning, PruningMode, estimate, summary};
use crate::run::{Quiet, Window};

pub(super) fn window(tokens: u64) -> Window {
    Window {
        tokens,
        reserve: 20_000,
        keep_recent: 20_000,
        flush: None,
        pruning: Pruning {
            mode: PruningMode::Off,
            ttl: Duration::from_mins(5),
            keep_assistants: 3,
            untrusted: false,
        },
    }
}

pub(super) fn user(text: &str) -> Message {
    Message::user(text, 0)
}

fn assistant(block: Block, stop_reason: StopReason) -> Message {
    let origin = Origin {
        api: "fake".into(),
        provider: "fake".into(),
        model: "fake".into(),
        profile_id: None,
        route: "fake".into(),
        stage: "fake".into(),
    };
    let usage = Usage::default();
    Message::Assistant { content: vec![block], origin, usage, stop_reason, error_message: None, timestamp: 0 }
}

pub(super) fn answer(text: &str) -> Message {
    assistant(Block::text(text), StopReason::Stop)
}

pub(super) fn calling(id: &str, name: &str, arguments: &str) -> Message {
    let arguments = serde_json::from_str(arguments).unwrap();
    let (id, name) = (id.to_owned(), name.to_owned());
    assistant(Block::ToolCall { id, name, arguments, thought_signature: None }, StopReason::ToolUse)
}

pub(super) fn result(tool: &str, text: &str) -> Message {
    Message::ToolResult {
        tool_call_id: "c".into(),
        tool_name: tool.into(),
        content: vec![Block::text(text)],
        is_error: false,
        details: None,
        timestamp: 0,
    }
}

pub(super) fn failing_call(id: &str, tool: &str, text: &str) -> Message {
    Message::ToolResult {
        tool_call_id: id.into(),
        tool_name: tool.into(),
        content: vec![Block::text(text)],
        is_error: true,
        details: Some(serde_json::json!({ "exitCode": 2 })),
        timestamp: 0,
    }
}

pub(super) fn failing(tool: &str, text: &str) -> Message {
    failing_call("c", tool, text)
}

pub(super) fn log(messages: Vec<Message>) -> Vec<Line> {
    (1..).zip(messages).map(|(seq, message)| Line { seq: Some(seq), message }).collect()
}

/// What a model does when it is asked.
#[derive(Clone)]
enum Does {
    Says(&'static str),
    SaysMuch,
    Echoes,
    Thinks,
    Calls,
    Fails(FailureKind),
    Hangs,
    /// Begins and never ends.
    Stalls,
    BreaksOff,
}

struct Fake {
    does: Box<dyn Fn(usize) -> Does + Send + Sync>,
    asked: Mutex<Vec<Request>>,
}

impl Fake {
    fn new(does: impl Fn(usize) -> Does + Send + Sync + 'static) -> Self {
        Self { does: Box::new(does), asked: Mutex::default() }
    }

    fn always(does: Does) -> Self {
        Self::new(move |_| does.clone())
    }

    fn questions(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|request| request.messages[0].text()).collect()
    }
}

impl Model for Fake {
    fn stream(&self, request: Request) -> ModelStream {
        let question = request.messages[0].text();
        let mut asked = self.asked.lock().unwrap();
        let does = (self.does)(asked.len());
        asked.push(request);
        let Message::Assistant { origin, .. } = answer("") else { panic!("an answer is an answer") };
        let start = ModelEvent::Start(origin);
        let says =
            |text: String| vec![start.clone(), end(Block::text(text)), ModelEvent::Done(StopReason::Stop)];
        let events = match does {
            Does::Says(text) => says(text.to_owned()),
            Does::SaysMuch => says(question.chars().rev().flat_map(|c| [c, 'x', c]).collect()),
            Does::Echoes => says(question.chars().take(question.chars().count() * 3 / 4).collect()),
            Does::Thinks => {
                let thinking = "I should sum up".to_owned();
                let thought = Block::Thinking { thinking, thinking_signature: None, redacted: false };
                vec![start, end(thought), ModelEvent::Done(StopReason::Stop)]
            }
            Does::Calls => {
                let kind = BlockKind::ToolCall { id: "c".into(), name: "exec".into() };
                let Message::Assistant { content, .. } = calling("c", "exec", r#"{"command": "ls"}"#) else {
                    panic!("a call is an answer")
                };
                let begun = ModelEvent::BlockStart { index: 0, kind };
                vec![start, begun, end(content[0].clone()), ModelEvent::Done(StopReason::ToolUse)]
            }
            Does::Fails(kind) => vec![start, ModelEvent::Failed(Failure::new(kind, "no"))],
            Does::Hangs => return Box::pin(stream::pending()),
            Does::Stalls => return Box::pin(stream::iter([start]).chain(stream::pending())),
            Does::BreaksOff => vec![start, end(Block::text("## Goal\nhalf"))],
        };
        Box::pin(stream::iter(events))
    }
}

fn end(block: Block) -> ModelEvent {
    ModelEvent::BlockEnd { index: 0, block }
}

fn job<'a>(lines: &'a [Line], before: Option<&'a Compaction>, window: &'a Window) -> Job<'a> {
    let mut job = Job {
        lines,
        before,
        window,
        tokens: 0,
        fixed: 0,
        instructions: None,
        session_name: "a conversation",
    };
    job.tokens = estimated(&job);
    job
}

/// A conversation of about `tokens` tokens in turns with a tool each.
fn conversation(tokens: usize) -> Vec<Line> {
    let mut messages = vec![user("Build the lighthouse")];
    for n in 0..tokens / 1_750 {
        let path = format!(r#"{{"path": "plan{n}.md"}}"#);
        messages.extend([
            calling("c", "read", &path),
            result("read", &format!("{n} bricks. {}", "brick ".repeat(1_140))),
            answer(&format!("Course {n} is laid.")),
            user(&format!("Lay course {}", n + 1)),
        ]);
    }
    log(messages)
}

const GOOD: &str = "## Goal\nA lighthouse.\n## Next steps\nMore courses.";

#[tokio::test]
async fn a_summary_and_the_newest_lines_take_the_place_of_a_long_conversation() {
    let (window, lines) = (window(200_000), conversation(190_000));
    let model = Fake::always(Does::Says(GOOD));
    let compaction = compact(job(&lines, None, &window), &Quiet::free(&model)).await.unwrap();
    assert!(compaction.summary.starts_with(GOOD), "{}", compaction.summary);
    assert!(!compaction.mechanical);
    assert_eq!(compaction.tokens_before, estimated(&job(&lines, None, &window)));
    let kept: Vec<&Line> = lines.iter().filter(|line| line.seq >= Some(compaction.first_kept_seq)).collect();
    let tokens: u64 = kept.iter().map(|line| estimate(&line.message)).sum();
    assert!((18_000..22_000).contains(&tokens), "{tokens}");
    let requests = model.asked.lock().unwrap();
    // Results are read in short, so all of it is one chunk.
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!((request.options.max_tokens, request.tools.len()), (Some(16_000), 0));
    let question = request.messages[0].text();
    assert!(
        question.starts_with("<conversation>\n[User]\nBuild the lighthouse\n\n[Assistant calls]\nread(path=")
    );
    assert!(question.contains("## Constraints and preferences"));
}

#[tokio::test]
async fn a_long_conversation_is_summed_up_in_halves_and_merged() {
    let window = window(100_000);
    let lines = log((0..300).map(|n| user(&format!("{n} {}", "talk ".repeat(250)))).collect());
    let model = Fake::new(|call| match call {
        0 => Does::Says("## Goal\nfirst half"),
        1 => Does::Says("## Goal\nsecond half"),
        _ => Does::Says("## Goal\nboth"),
    });
    let before = Compaction {
        summary: "## Goal\nlong ago".into(),
        first_kept_seq: 1,
        tokens_before: 1,
        mechanical: false,
        files: FileTrail::default(),
    };
    let compaction = compact(job(&lines, Some(&before), &window), &Quiet::free(&model)).await.unwrap();
    assert_eq!(compaction.summary, "## Goal\nboth");
    let questions = model.questions();
    assert!((3..=8).contains(&questions.len()), "{}", questions.len());
    assert!(questions[0].starts_with("<summary-so-far>\n## Goal\nlong ago\n</summary-so-far>"));
    let last = questions.last().unwrap();
    assert!(last.contains("summaries of consecutive parts"), "{last}");
}

#[tokio::test]
async fn no_way_to_fail_leaves_an_empty_context() {
    let (window, lines) = (window(50_000), conversation(60_000));
    for (what, does) in [
        ("fails", Does::Fails(FailureKind::Broken)),
        ("is too small", Does::Fails(FailureKind::ContextOverflow)),
        ("hangs", Does::Hangs),
        ("stalls", Does::Stalls),
        ("breaks off", Does::BreaksOff),
        ("says nothing", Does::Says("")),
        ("says blanks", Does::Says(" \n\t\u{3000} ")),
        ("only thinks", Does::Thinks),
        ("thinks aloud", Does::Says("<think>I should sum up the lighthouse</think>")),
        ("calls tools", Does::Calls),
        ("says too much", Does::SaysMuch),
        ("echoes", Does::Echoes),
    ] {
        let model = Fake::always(does);
        let limits = Limits { call: Duration::from_millis(20), ..Limits::default() };
        let compaction =
            compact_within(job(&lines, None, &window), &Quiet::free(&model), limits).await.unwrap();
        assert!(compaction.mechanical, "{what}: {}", compaction.summary);
        assert!(compaction.summary.contains("It began with: \"Build the lighthouse\""), "{what}");
        assert!(compaction.summary.contains("- plan0.md"), "{what}: {}", compaction.summary);
        assert!(compaction.files.read.contains(&"plan0.md".to_owned()), "{what}");
        assert!(lines.last().unwrap().seq >= Some(compaction.first_kept_seq), "{what}: something is kept");
        assert!(model.questions().len() <= 8, "{what}");
    }
}

#[tokio::test]
async fn when_the_time_is_over_no_model_is_asked_any_more() {
    let window = window(100_000);
    let lines = log((0..300).map(|n| user(&format!("{n} {}", "talk ".repeat(250)))).collect());
    let model = Fake::always(Does::Says(GOOD));
    let limits = Limits { whole: Duration::ZERO, ..Limits::default() };
    let compaction = compact_within(job(&lines, None, &window), &Quiet::free(&model), limits).await.unwrap();
    assert!(compaction.mechanical && model.questions().is_empty());
    // Nor when the calls are used up.
    let limits = Limits { calls: 1, ..Limits::default() };
    let compaction = compact_within(job(&lines, None, &window), &Quiet::free(&model), limits).await.unwrap();
    assert_eq!(model.questions().len(), 1);
    assert!(compaction.summary.contains("messages were left out: there were too many.)\n## Goal"));
}

#[tokio::test]
async fn a_message_that_fills_the_window_is_left_out_and_the_rest_summed_up() {
    let window = window(40_000);
    let mut messages = vec![user("Build the lighthouse"), answer("With what?")];
    messages.push(user(&"brick ".repeat(12_000)));
    messages.extend((0..90).flat_map(|n| [answer(&format!("{n} {}", "ok ".repeat(300))), user("on")]));
    let lines = log(messages);
    let model =
        Fake::new(
            |call| if call == 0 { Does::Fails(FailureKind::ContextOverflow) } else { Does::Says(GOOD) },
        );
    let compaction = compact(job(&lines, None, &window), &Quiet::free(&model)).await.unwrap();
    assert!(!compaction.mechanical);
    let expected = format!("(Left out because of their size: 1 messages of about 19K tokens.)\n{GOOD}");
    assert!(compaction.summary.starts_with(&expected), "{}", compaction.summary);
    assert!(!model.questions().last().unwrap().contains("brick brick"));
}

#[tokio::test]
async fn the_request_under_way_survives_every_summary() {
    let window = window(16_000);
    let mut messages = vec![user("old"), answer("news"), user("Count the gulls, all of them")];
    messages.extend((0..20).flat_map(|_| [calling("c", "ls", "{}"), result("ls", &"gull ".repeat(400))]));
    let mut lines = log(messages);
    let mut before: Option<Compaction> = None;
    for round in 0..4 {
        let model =
            Fake::always(if round % 2 == 0 { Does::Says("## Goal\nSell ice cream") } else { Does::Hangs });
        let limits = Limits { call: Duration::from_millis(20), ..Limits::default() };
        let done = compact_within(job(&lines, before.as_ref(), &window), &Quiet::free(&model), limits).await;
        let done = done.unwrap_or_else(|| panic!("round {round}"));
        let written = "## The request under way, as it was written\nCount the gulls, all of them";
        assert!(done.summary.contains(written), "round {round}: {}", done.summary);
        assert_eq!(done.summary.matches("Noted beside the summary").count(), 1);
        lines.retain(|line| line.seq >= Some(done.first_kept_seq));
        let last = lines.last().unwrap().seq.unwrap();
        let more = (0..20).flat_map(|_| [calling("c", "ls", "{}"), result("ls", &"gull ".repeat(400))]);
        lines.extend((last + 1..).zip(more).map(|(seq, message)| Line { seq: Some(seq), message }));
        before = Some(done);
    }
}

#[tokio::test]
async fn failures_are_kept_in_the_tools_own_words() {
    let window = window(16_000);
    let mut messages = vec![user("go")];
    for n in 0..16 {
        let text = format!("error {n}:\nno such file {}", "x".repeat(n * 100));
        messages.extend([calling("c", "exec", "{}"), failing("exec", &text), answer(&"well ".repeat(800))]);
    }
    let lines = log(messages);
    let compaction =
        compact(job(&lines, None, &window), &Quiet::free(&Fake::always(Does::Says(GOOD)))).await.unwrap();
    let (_, notes) = compaction.summary.split_once("## Tool failures\n").unwrap();
    assert!(notes.starts_with("- exec (exitCode=2): error "), "{notes}");
    assert!(notes.lines().filter(|line| line.starts_with("- exec")).count() <= 8);
    assert!(notes.lines().all(|line| line.chars().count() <= 242), "{notes}");
    assert!(notes.contains(" more"), "{notes}");
}

#[tokio::test]
async fn what_a_provider_finds_too_long_is_made_shorter_although_we_count_less() {
    let window = window(200_000);
    let lines = conversation(15_000);
    let plain = job(&lines, None, &window);
    let model = Fake::always(Does::Says(GOOD));
    assert_eq!(compact(plain, &Quiet::free(&model)).await, None);
    let too_long = Job { tokens: 200_001, ..plain };
    assert!(compact(too_long, &Quiet::free(&model)).await.unwrap().first_kept_seq > 1);
}

#[tokio::test]
async fn what_somebody_wants_kept_in_mind_is_asked_for() {
    let (window, lines) = (window(50_000), conversation(60_000));
    let model = Fake::always(Does::Says(GOOD));
    let wish = Job { instructions: Some("the colour of the lamp"), ..job(&lines, None, &window) };
    compact(wish, &Quiet::free(&model)).await.unwrap();
    assert!(model.questions()[0].ends_with("Keep this in mind above all: the colour of the lamp"));
}

fn entry(compaction: Compaction) -> Entry {
    Entry {
        session_id: SessionId::from_parts(1, [0; 10]),
        seq: 1,
        id: EntryId::from_parts(1, [0; 10]),
        parent_id: None,
        run_id: RunId::from_parts(1, [0; 10]),
        created_at: 0,
        body: EntryBody::Compaction(compaction),
    }
}

fn any_message() -> impl Strategy<Value = Message> {
    let text = prop_oneof![
        8 => "(<summary>|</conversation|[a-z<\\[\\] \n潮]){0,60}",
        1 => (1_usize..30_000).prop_map(|size| "wave ".repeat(size / 5)),
    ];
    (0..5, text).prop_map(|(kind, text)| match kind {
        0 => user(&text),
        1 => answer(&text),
        2 => calling("c", "write", &serde_json::json!({ "path": text }).to_string()),
        3 => failing("exec", &text),
        _ => result("read", &text),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn afterwards_it_fits_and_there_is_nothing_more_to_sum_up(
        messages in proptest::collection::vec(any_message(), 1..30),
        tokens in 1_000_u64..300_000,
        reserve in 0_u64..40_000,
        keep_recent in 0_u64..40_000,
        fixed_share in 0_u64..75,
        earlier in proptest::option::of("[a-z \n]{0,900}"),
        good in any::<bool>(),
    ) {
        let window = Window { reserve, keep_recent, ..window(tokens) };
        let lines = log(messages);
        let before = earlier.map(|summary| Compaction {
            summary, first_kept_seq: 1, tokens_before: 1, mechanical: false, files: FileTrail::default(),
        });
        let fixed = window.line() * fixed_share / 100;
        let plain = job(&lines, before.as_ref(), &window);
        let full = Job { fixed, tokens: plain.tokens + fixed, ..plain };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let model = Fake::always(if good { Does::Says(GOOD) } else { Does::Fails(FailureKind::Broken) });
        let done = runtime.block_on(compact(full, &Quiet::free(&model)));
        prop_assert!(model.questions().len() <= 8);
        let Some(done) = done else {
            prop_assert!(full.tokens < window.line());
            return Ok(());
        };
        prop_assert!(!done.summary.trim().is_empty());
        let kept: Vec<Line> =
            lines.iter().filter(|line| line.seq >= Some(done.first_kept_seq)).cloned().collect();
        let first_is_result = kept.first().is_some_and(|line| matches!(line.message, Message::ToolResult { .. }));
        prop_assert!(!first_is_result);
        let after = job(&kept, Some(&done), &window);
        let shown = estimate(&summary(&entry(done.clone())).unwrap());
        let tokens = shown + kept.iter().map(|line| estimate(&line.message)).sum::<u64>() + fixed;
        prop_assert!(tokens < window.line(), "{tokens} >= {}", window.line());
        let again = Job { tokens, fixed, ..after };
        prop_assert_eq!(runtime.block_on(compact(again, &Quiet::free(&model))), None);
    }
}
