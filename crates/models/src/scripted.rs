//! A model whose answers stand in a file: for demonstrations, and for tests of everything behind a model.
//!
//! It keeps no state. Which turn answers follows from the conversation alone, so that the same question in the same
//! place gets the same answer, also after a restart.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::Value;
use tidegate_protocol::{Block, Message, ModelRef, Origin, StopReason, Usage};
use tidegate_runtime::Clock;

use crate::failure::{Failure, FailureKind};
use crate::ledger::{CallOutcome, Ledger};
use crate::meter::Meter;
use crate::request::Request;
use crate::stream::{BlockKind, Model, ModelEvent, ModelStream};

/// Most bytes of a script.
const MOST: u64 = 16 << 20;
/// Characters in one delta.
const DELTA_CHARS: usize = 12;

/// The file.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Script {
    turns: Vec<Turn>,
}

/// One answer. The first turn whose `when` occurs in the question answers; else the turns without a `when`, one after
/// the other and round again.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Turn {
    when: Option<String>,
    think: Option<String>,
    say: Option<String>,
    calls: Vec<ScriptedCall>,
    /// Between two pieces.
    delay_ms: u64,
    usage: Option<ScriptedUsage>,
    /// Fail instead, or after what was said.
    fail: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ScriptedCall {
    id: String,
    name: String,
    arguments: Value,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ScriptedUsage {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

pub(crate) struct Scripted {
    pub(crate) model: ModelRef,
    pub(crate) file: PathBuf,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Model for Scripted {
    fn stream(&self, request: Request) -> ModelStream {
        let (events, delay) = match read(&self.file).and_then(|script| choose(&script, &request)) {
            Ok(turn) => (self.events(&turn), Duration::from_millis(turn.delay_ms)),
            Err(failure) => (vec![ModelEvent::Failed(failure)], Duration::ZERO),
        };
        let now = self.clock.now_ms();
        let mut meter = Meter::new(&self.ledger, self.model.clone(), None, None, now, &request);
        let events = stream::iter(events).then(move |mut event| {
            meter.look(&mut event);
            match &event {
                ModelEvent::Done(_) => meter.end(CallOutcome::Answered),
                ModelEvent::Failed(failure) => meter.end(CallOutcome::Failed(failure.kind)),
                _ => {}
            }
            async move {
                if !delay.is_zero() && matches!(event, ModelEvent::TextDelta { .. }) {
                    tokio::time::sleep(delay).await;
                }
                event
            }
        });
        Box::pin(events)
    }
}

impl Scripted {
    fn events(&self, turn: &Turn) -> Vec<ModelEvent> {
        let mut events = vec![ModelEvent::Start(self.origin())];
        let mut index = 0;
        if let Some(thought) = &turn.think {
            events.push(ModelEvent::BlockStart { index, kind: BlockKind::Thinking });
            events.extend(pieces(thought).map(|text| ModelEvent::ThinkingDelta { index, text }));
            let block =
                Block::Thinking { thinking: thought.clone(), thinking_signature: None, redacted: false };
            events.push(ModelEvent::BlockEnd { index, block });
            index += 1;
        }
        if let Some(words) = &turn.say {
            events.push(ModelEvent::BlockStart { index, kind: BlockKind::Text });
            events.extend(pieces(words).map(|text| ModelEvent::TextDelta { index, text }));
            events.push(ModelEvent::BlockEnd { index, block: Block::text(words.clone()) });
            index += 1;
        }
        for call in &turn.calls {
            let ScriptedCall { id, name, arguments } = call.clone();
            let kind = BlockKind::ToolCall { id: id.clone(), name: name.clone() };
            events.push(ModelEvent::BlockStart { index, kind });
            events.push(ModelEvent::ArgumentsDelta { index, json: arguments.to_string() });
            let block = Block::ToolCall { id, name, arguments, thought_signature: None };
            events.push(ModelEvent::BlockEnd { index, block });
            index += 1;
        }
        if let Some(ScriptedUsage { input, output, cache_read, cache_write }) = turn.usage {
            let usage = Usage { input, output, cache_read, cache_write, ..Usage::default() };
            events.push(ModelEvent::Usage(usage));
        }
        events.push(match &turn.fail {
            Some(reason) => {
                let kind = FailureKind::parse(reason).unwrap_or(FailureKind::Broken);
                ModelEvent::Failed(Failure::new(kind, format!("the script says so: {reason}")))
            }
            None if turn.calls.is_empty() => ModelEvent::Done(StopReason::Stop),
            None => ModelEvent::Done(StopReason::ToolUse),
        });
        events
    }

    fn origin(&self) -> Origin {
        let ModelRef { provider, model } = &self.model;
        Origin {
            api: "scripted".to_owned(),
            provider: provider.clone(),
            model: model.clone(),
            profile_id: None,
            route: provider.clone(),
            stage: format!("adapter.scripted.{model}"),
        }
    }
}

fn pieces(text: &str) -> impl Iterator<Item = String> {
    let characters: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = characters.chunks(DELTA_CHARS).map(|piece| piece.iter().collect()).collect();
    pieces.into_iter()
}

fn read(file: &Path) -> Result<Script, Failure> {
    let wrong = |cause: String| {
        Failure::new(FailureKind::Broken, format!("the script {} cannot be used: {cause}", file.display()))
    };
    let size = std::fs::metadata(file).map_err(|error| wrong(error.to_string()))?.len();
    if size > MOST {
        return Err(wrong(format!("it is larger than {MOST} bytes")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
}

fn choose(script: &Script, request: &Request) -> Result<Turn, Failure> {
    let question = request.messages.last().map(Message::text).unwrap_or_default();
    let meant = |question: &str| {
        script
            .turns
            .iter()
            .find(|turn| turn.when.as_ref().is_some_and(|when| question.contains(when.as_str())))
    };
    if let Some(turn) = meant(&question) {
        return Ok(turn.clone());
    }
    let plain: Vec<&Turn> = script.turns.iter().filter(|turn| turn.when.is_none()).collect();
    // An answer that its question chose is none of those that come in order.
    let before = std::iter::once(None).chain(request.messages.iter().map(Some));
    let in_order = |(message, before): &(&Message, Option<&Message>)| {
        matches!(message, Message::Assistant { .. })
            && before.is_none_or(|before| meant(&before.text()).is_none())
    };
    let answers = request.messages.iter().zip(before).filter(in_order).count();
    plain
        .get(answers % plain.len().max(1))
        .map(|turn| (*turn).clone())
        .ok_or_else(|| Failure::new(FailureKind::Empty, "the script has no turn for this question"))
}

#[cfg(test)]
mod tests {
    use tidegate_runtime::SystemClock;

    use super::*;

    async fn ask(script: &str, questions: &[&str]) -> (Vec<ModelEvent>, Arc<Ledger>) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script.json");
        std::fs::write(&file, script).unwrap();
        let ledger = Arc::new(Ledger::default());
        let model = ModelRef { provider: "demo".to_owned(), model: "m".to_owned() };
        let scripted = Scripted { model, file, ledger: Arc::clone(&ledger), clock: Arc::new(SystemClock) };
        let messages = questions.iter().map(|text| Message::user(*text, 0)).collect();
        let events = scripted.stream(Request { messages, ..Request::default() }).collect().await;
        (events, ledger)
    }

    fn words(events: &[ModelEvent]) -> String {
        let delta = |event: &ModelEvent| match event {
            ModelEvent::TextDelta { text, .. } => Some(text.clone()),
            _ => None,
        };
        events.iter().filter_map(delta).collect()
    }

    #[tokio::test]
    async fn the_turn_that_knows_the_question_answers_else_the_next_plain_one() {
        let script = r#"{"turns": [{"say": "first"}, {"when": "tide", "say": "high at seven", "usage": {"input": 5, "output": 3}}]}"#;
        let (events, ledger) = ask(script, &["when is the tide?"]).await;
        assert_eq!(words(&events), "high at seven");
        assert_eq!(events.last(), Some(&ModelEvent::Done(StopReason::Stop)));
        let calls = ledger.take();
        assert_eq!((calls[0].usage.input, calls[0].usage.output, calls[0].estimated), (5, 3, false));
        assert_eq!(words(&ask(script, &["hello"]).await.0), "first");
    }

    #[test]
    fn an_answer_that_its_question_chose_takes_no_place_among_those_in_order() {
        let script = r#"{"turns": [{"when": "alpha", "say": "A"}, {"say": "first"}, {"say": "second"}, {"say": "third"}]}"#;
        let script: Script = serde_json::from_str(script).unwrap();
        let origin = ["api", "provider", "model", "route", "stage"].map(|name| (name, "x"));
        let mut answer = serde_json::json!({
            "role": "assistant", "content": [], "usage": Usage::default(), "stopReason": "stop", "timestamp": 0,
        });
        for (name, value) in origin {
            answer[name] = value.into();
        }
        let answer: Message = serde_json::from_value(answer).unwrap();
        let mut request = Request::default();
        let mut said = Vec::new();
        for question in ["alpha", "x", "alpha", "y", "z", "x"] {
            request.messages.push(Message::user(question, 0));
            said.extend(choose(&script, &request).unwrap().say);
            request.messages.push(answer.clone());
        }
        assert_eq!(said, ["A", "first", "A", "second", "third", "first"]);
    }

    #[tokio::test]
    async fn a_script_that_cannot_be_read_is_a_failure_that_says_why() {
        let (events, _) = ask("{", &["x"]).await;
        let [ModelEvent::Failed(failure)] = events.as_slice() else { panic!("{events:?}") };
        assert!(failure.message.contains("script.json cannot be used"), "{failure}");
    }

    #[tokio::test]
    async fn calls_thoughts_and_failures_can_be_played() {
        let script =
            r#"{"turns": [{"think": "hm", "calls": [{"id": "c1", "name": "t", "arguments": {"a": 1}}]}]}"#;
        let (events, _) = ask(script, &["x"]).await;
        assert_eq!(events.last(), Some(&ModelEvent::Done(StopReason::ToolUse)));
        let script = r#"{"turns": [{"say": "I begin", "fail": "overloaded"}]}"#;
        let (events, _) = ask(script, &["x"]).await;
        let Some(ModelEvent::Failed(failure)) = events.last() else { panic!("{events:?}") };
        assert_eq!(failure.kind, FailureKind::Overloaded);
        assert_eq!(words(&events), "I begin");
    }
}
