//! The offline model: answers at once, the same way every time, without a network.
//!
//! It proves the whole way of a message on a machine with nothing set up. Its words are the `ask` contract's.

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use tidegate_protocol::{Block, Message, Origin, StopReason, Usage};
use tidegate_runtime::{Clock as _, SystemClock, fault};

use crate::ledger::{CallOutcome, CallRecord, Ledger};
use crate::request::Request;
use crate::stream::{BlockKind, Model, ModelEvent, ModelStream};

/// Characters in one delta: small enough that streaming shows.
const DELTA_CHARS: usize = 12;

pub(crate) struct Offline {
    ledger: Arc<Ledger>,
}

impl Offline {
    pub(crate) fn new(ledger: &Arc<Ledger>) -> Self {
        Self { ledger: Arc::clone(ledger) }
    }
}

impl Model for Offline {
    fn stream(&self, request: Request) -> ModelStream {
        let ledger = Arc::clone(&self.ledger);
        let started_at = SystemClock.now_ms();
        let events = stream::iter(answer(&request)).then(move |event| {
            if let ModelEvent::Usage(usage) = &event {
                ledger.record(CallRecord {
                    model: crate::default_model(),
                    profile_id: None,
                    started_at,
                    usage: *usage,
                    estimated: true,
                    outcome: CallOutcome::Answered,
                });
            }
            async {
                match &event {
                    ModelEvent::Start(_) => fault::pause("models.offline.start").await,
                    ModelEvent::TextDelta { .. } => {
                        fault::pause("models.offline.delta").await;
                        let delay = fault::model_delay();
                        if !delay.is_zero() {
                            tokio::time::sleep(delay).await;
                        }
                    }
                    _ => {}
                }
                event
            }
        });
        Box::pin(events)
    }
}

fn answer(request: &Request) -> Vec<ModelEvent> {
    let input = request.messages.last().map(Message::text).unwrap_or_default();
    let context = request.messages.len();
    let session = &request.session_name;
    let (route, text) = if wants_summary(&input) {
        ("summary", format!("[stub-summary] context={context}条消息：我已接收到你的内容：{input}"))
    } else {
        ("echo", format!("[stub-echo][{session}] context={context}条消息，已接收到输入：{input}"))
    };
    let usage = Usage {
        input: request.messages.iter().map(|message| tokens(&message.text())).sum(),
        output: tokens(&text),
        ..Usage::default()
    };
    let start = ModelEvent::BlockStart { index: 0, kind: BlockKind::Text };
    let mut events = vec![ModelEvent::Start(origin(route)), start];
    let characters: Vec<char> = text.chars().collect();
    let delta = |characters: &[char]| ModelEvent::TextDelta { index: 0, text: characters.iter().collect() };
    events.extend(characters.chunks(DELTA_CHARS).map(delta));
    let end = ModelEvent::BlockEnd { index: 0, block: Block::text(text) };
    events.extend([end, ModelEvent::Usage(usage), ModelEvent::Done(StopReason::Stop)]);
    events
}

fn wants_summary(input: &str) -> bool {
    input.contains("总结") || input.to_lowercase().contains("summary")
}

/// The usual rough estimate: four characters a token.
fn tokens(text: &str) -> u64 {
    text.chars().count().div_ceil(4) as u64
}

fn origin(route: &str) -> Origin {
    Origin {
        api: crate::OFFLINE.to_owned(),
        provider: crate::OFFLINE.to_owned(),
        model: route.to_owned(),
        profile_id: None,
        route: route.to_owned(),
        stage: format!("adapter.stub.{route}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(texts: &[&str]) -> (Origin, String, ModelEvent) {
        let messages = texts.iter().map(|text| Message::user(*text, 0)).collect();
        let events: Vec<_> = Offline::new(&Arc::default())
            .stream(Request { messages, session_name: "lc-1-abcd".into(), ..Request::default() })
            .collect()
            .await;
        let Some(ModelEvent::Start(origin)) = events.first() else { panic!("no start") };
        let text = events
            .iter()
            .filter_map(|event| match event {
                ModelEvent::TextDelta { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        (origin.clone(), text, events.last().unwrap().clone())
    }

    #[tokio::test]
    async fn it_echoes_with_the_size_of_its_context() {
        let (origin, text, last) = ask(&["a", "b", "你好"]).await;
        assert_eq!((origin.route.as_str(), origin.stage.as_str()), ("echo", "adapter.stub.echo"));
        assert_eq!(text, "[stub-echo][lc-1-abcd] context=3条消息，已接收到输入：你好");
        assert_eq!(last, ModelEvent::Done(StopReason::Stop));
    }

    #[tokio::test]
    async fn it_summarises_when_asked_in_either_language() {
        for input in ["请总结一下", "SUMMARY please"] {
            let (origin, text, _) = ask(&[input]).await;
            assert_eq!(origin.route, "summary");
            assert_eq!(text, format!("[stub-summary] context=1条消息：我已接收到你的内容：{input}"));
        }
    }
}
