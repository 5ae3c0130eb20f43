//! A stream read to its end, with the order of its events checked on the way.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use tidegate_models::{BlockKind, Failure, ModelEvent, ModelStream};
use tidegate_protocol::{Block, Message, ModelRef, Origin, StopReason, Usage};

/// Everything one stream said.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) events: Vec<ModelEvent>,
    /// Who was given up on the way, and why.
    pub(crate) switched: Vec<(ModelRef, Option<String>, Failure)>,
    pub(crate) origin: Option<Origin>,
    /// The blocks that were begun.
    pub(crate) begun: Vec<BlockKind>,
    /// The blocks that came to their end, in the order of their numbers.
    pub(crate) blocks: Vec<Block>,
    pub(crate) usage: Option<Usage>,
    pub(crate) end: Result<StopReason, Failure>,
}

impl Heard {
    /// Reads the stream and holds it against the grammar every stream has.
    pub(crate) async fn read(stream: ModelStream) -> Self {
        Self::of(stream.collect().await, Deltas::MakeTheBlock)
    }

    /// The same for a server that said things in the wrong order: then the end of a block counts, not its pieces.
    pub(crate) async fn read_disordered(stream: ModelStream) -> Self {
        Self::of(stream.collect().await, Deltas::MayErr)
    }

    fn of(events: Vec<ModelEvent>, deltas: Deltas) -> Self {
        let mut grammar = Grammar::new(deltas);
        for event in &events {
            grammar.take(event);
        }
        let (grammar, end) = grammar.finish(&events);
        let Grammar { switched, origin, begun, ended, usage, .. } = grammar;
        Self { events, switched, origin, begun, blocks: ended.into_values().collect(), usage, end }
    }

    pub(crate) fn text(&self) -> String {
        let text = |block: &Block| match block {
            Block::Text { text, .. } => Some(text.clone()),
            _ => None,
        };
        self.blocks.iter().filter_map(text).collect()
    }

    pub(crate) fn thinking(&self) -> String {
        let text = |block: &Block| match block {
            Block::Thinking { thinking, .. } => Some(thinking.clone()),
            _ => None,
        };
        self.blocks.iter().filter_map(text).collect()
    }

    /// Name and arguments of each call that came to its end.
    pub(crate) fn calls(&self) -> Vec<(String, serde_json::Value)> {
        let call = |block: &Block| match block {
            Block::ToolCall { name, arguments, .. } => Some((name.clone(), arguments.clone())),
            _ => None,
        };
        self.blocks.iter().filter_map(call).collect()
    }

    pub(crate) fn call_ids(&self) -> Vec<String> {
        let id = |block: &Block| match block {
            Block::ToolCall { id, .. } => Some(id.clone()),
            _ => None,
        };
        self.blocks.iter().filter_map(id).collect()
    }

    pub(crate) fn failure(&self) -> &Failure {
        self.end.as_ref().expect_err("the answer failed")
    }

    /// The answer as the conversation keeps it.
    pub(crate) fn message(&self) -> Message {
        Message::Assistant {
            content: self.blocks.clone(),
            origin: self.origin.clone().expect("somebody answered"),
            usage: self.usage.unwrap_or_default(),
            stop_reason: self.end.clone().unwrap_or(StopReason::Error),
            error_message: None,
            timestamp: 2,
        }
    }
}

/// What the pieces of a block promise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deltas {
    MakeTheBlock,
    MayErr,
}

/// The order of events, as `ModelEvent` tells it.
struct Grammar {
    deltas: Deltas,
    switched: Vec<(ModelRef, Option<String>, Failure)>,
    origin: Option<Origin>,
    begun: Vec<BlockKind>,
    /// Blocks that are open, with what their pieces make so far.
    open: BTreeMap<usize, String>,
    ended: BTreeMap<usize, Block>,
    usage: Option<Usage>,
    end: Option<Result<StopReason, Failure>>,
}

impl Grammar {
    fn new(deltas: Deltas) -> Self {
        Self {
            deltas,
            switched: Vec::new(),
            origin: None,
            begun: Vec::new(),
            open: BTreeMap::new(),
            ended: BTreeMap::new(),
            usage: None,
            end: None,
        }
    }

    fn take(&mut self, event: &ModelEvent) {
        assert!(self.end.is_none(), "{event:?} after the end");
        let is_end = matches!(event, ModelEvent::Done(_) | ModelEvent::Failed(_));
        assert!(self.usage.is_none() || is_end, "{event:?} between the usage and the end");
        match event {
            ModelEvent::Switched { from, profile_id, failure } => {
                assert!(self.origin.is_none(), "a switch after the start");
                self.switched.push((from.clone(), profile_id.clone(), failure.clone()));
            }
            ModelEvent::Start(origin) => {
                assert!(self.origin.replace(origin.clone()).is_none(), "two starts");
            }
            ModelEvent::BlockStart { index, kind } => {
                assert!(self.origin.is_some(), "a block before the start");
                assert_eq!(*index, self.begun.len(), "blocks are counted from 0");
                self.begun.push(kind.clone());
                self.open.insert(*index, String::new());
            }
            ModelEvent::TextDelta { index, text } => self.piece(*index, text, &BlockKind::Text),
            ModelEvent::ThinkingDelta { index, text } => self.piece(*index, text, &BlockKind::Thinking),
            ModelEvent::ArgumentsDelta { index, json } => {
                let kind = self.begun.get(*index).cloned().expect("a piece of a block that was begun");
                assert!(matches!(kind, BlockKind::ToolCall { .. }), "arguments of {kind:?}");
                self.piece(*index, json, &kind);
            }
            ModelEvent::BlockEnd { index, block } => self.block(*index, block),
            ModelEvent::Usage(usage) => self.usage = Some(*usage),
            ModelEvent::Done(reason) => self.end = Some(Ok(*reason)),
            ModelEvent::Failed(failure) => self.end = Some(Err(failure.clone())),
        }
    }

    fn piece(&mut self, index: usize, text: &str, kind: &BlockKind) {
        assert_eq!(self.begun.get(index), Some(kind));
        assert!(!text.is_empty(), "an empty piece");
        self.open.get_mut(&index).expect("a piece of a block that is open").push_str(text);
    }

    fn block(&mut self, index: usize, block: &Block) {
        let pieces = self.open.remove(&index).expect("the end of a block that is open");
        let exact = self.deltas == Deltas::MakeTheBlock;
        match (&self.begun[index], block) {
            (BlockKind::Text, Block::Text { text, .. }) => assert!(!exact || *text == pieces),
            (BlockKind::Thinking, Block::Thinking { thinking, .. }) => {
                assert!(!exact || *thinking == pieces);
            }
            (BlockKind::ToolCall { id, name }, Block::ToolCall { id: own, name: named, arguments, .. }) => {
                assert_eq!((id, name), (own, named));
                let read = serde_json::from_str(&pieces).unwrap_or(serde_json::json!({}));
                assert!(!exact || *arguments == read || arguments == &serde_json::json!(pieces));
            }
            (kind, block) => panic!("{kind:?} ended as {block:?}"),
        }
        self.ended.insert(index, block.clone());
    }

    fn finish(mut self, events: &[ModelEvent]) -> (Self, Result<StopReason, Failure>) {
        let Some(end) = self.end.take() else { panic!("a stream without an end: {events:?}") };
        for index in self.open.keys() {
            let kind = &self.begun[*index];
            assert!(matches!(kind, BlockKind::ToolCall { .. }), "{kind:?} has no end");
            assert!(
                !matches!(end, Ok(StopReason::Stop | StopReason::ToolUse)),
                "a cut call in a whole answer"
            );
        }
        if let Ok(reason) = end {
            assert!(self.origin.is_some(), "nobody answered");
            let called = self.ended.values().any(|block| matches!(block, Block::ToolCall { .. }));
            assert!(!matches!((reason, called), (StopReason::Stop, true) | (StopReason::ToolUse, false)));
        }
        (self, end)
    }
}
