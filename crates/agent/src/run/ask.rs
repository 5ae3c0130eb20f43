//! One model call, read to its end.

use futures_util::StreamExt as _;
use tidegate_models::{Failure, FailureKind, Model, ModelEvent, Options, Request, ToolChoice};
use tidegate_protocol::{
    Block, ErrorBody, ErrorCode, Message, Origin, RunEventBody, StopReason, ToolCall, ToolSource, Usage,
};

use super::past::calls_in;
use super::{Run, Stop};
use crate::desk::Afford;
use crate::text::{FilterOptions, Piece, StreamFilter};

/// An answer that came to its end.
pub(crate) struct Heard {
    content: Vec<Block>,
    pub(super) origin: Origin,
    usage: Usage,
    pub(super) stop_reason: StopReason,
}

impl Heard {
    pub(crate) fn calls(&self) -> Vec<ToolCall> {
        calls_in(&self.content, ToolSource::Model)
    }

    pub(crate) fn message(self, timestamp: i64) -> Message {
        let Self { content, origin, usage, stop_reason } = self;
        Message::Assistant { content, origin, usage, stop_reason, error_message: None, timestamp }
    }
}

impl Run<'_> {
    /// Asks the model about the conversation. A conversation that is too long after all is summed up and asked about once
    /// more.
    pub(super) async fn ask(&mut self, choice: ToolChoice) -> Result<Heard, Stop> {
        self.afford().await?;
        match self.listen(choice.clone()).await {
            Ok(heard) => Ok(heard),
            Err(failure)
                if failure.kind == FailureKind::ContextOverflow && self.sum_up_after_overflow().await? =>
            {
                self.afford().await?;
                self.listen(choice).await.map_err(|failure| Stop::Failed(failure.body()))
            }
            Err(failure) => Err(Stop::Failed(failure.body())),
        }
    }

    /// What the first call may use was reserved when the run was accepted; each one after it needs more.
    async fn afford(&mut self) -> Result<(), Stop> {
        if !std::mem::replace(&mut self.has_asked, true) || !self.parts.desk.is_limited() {
            return Ok(());
        }
        if !self.parts.desk.calls().is_empty() {
            self.commit(Vec::new()).await?;
        }
        self.affordable = match self.parts.desk.afford(self.tokens()).await? {
            Afford::Whole => None,
            Afford::Short(most) => Some(most),
            Afford::No(error) => return Err(Stop::Failed(error)),
        };
        Ok(())
    }

    pub(super) fn request(&self, choice: ToolChoice) -> Request {
        let spec = &self.turn.spec;
        let lease = &self.turn.lease;
        Request {
            system: self.system.clone(),
            messages: self.messages(),
            tools: self.tools.to_vec(),
            options: Options {
                max_tokens: [spec.limits.max_tokens, self.affordable].into_iter().flatten().min(),
                thinking: spec.thinking.unwrap_or_default(),
                tool_choice: choice,
                ..Options::default()
            },
            session_name: lease.alias.clone().unwrap_or_else(|| lease.session.to_string()),
        }
    }

    async fn listen(&self, choice: ToolChoice) -> Result<Heard, Failure> {
        let desk = self.parts.desk;
        let mut stream = self.parts.model.stream(self.request(choice));
        let mut ear = Ear::default();
        desk.emit(RunEventBody::Started);
        while let Some(event) = stream.next().await {
            match ear.hear(event, &|event| desk.emit(event)) {
                None => {}
                Some(Ok(heard)) => {
                    desk.charge("turn");
                    self.tell_usage(&heard);
                    return Ok(heard);
                }
                Some(Err(failure)) => {
                    desk.charge("turn");
                    return Err(failure);
                }
            }
        }
        desk.charge("turn");
        Err(cut_off())
    }

    fn tell_usage(&self, heard: &Heard) {
        let (window, context_tokens) = (self.turn.window.tokens, heard.usage.total());
        self.parts.desk.emit(RunEventBody::Usage { usage: heard.usage, context_tokens, window });
    }
}

/// One model call that nobody watches.
pub(super) async fn overhear(model: &dyn Model, request: Request) -> Result<Heard, Failure> {
    let mut stream = model.stream(request);
    let mut ear = Ear::default();
    while let Some(event) = stream.next().await {
        if let Some(end) = ear.hear(event, &|_| {}) {
            return end;
        }
    }
    Err(cut_off())
}

/// Turns a model's events into an answer, and into what people see of it.
#[derive(Default)]
struct Ear {
    origin: Option<Origin>,
    content: Vec<Block>,
    usage: Usage,
    /// The text block under way.
    text: Option<(StreamFilter, Said)>,
}

#[derive(Default)]
struct Said {
    visible: String,
    thought: String,
}

impl Ear {
    /// Answers how it ended, once it has.
    fn hear(
        &mut self,
        event: ModelEvent,
        emit: &(dyn Fn(RunEventBody) + Sync),
    ) -> Option<Result<Heard, Failure>> {
        match event {
            ModelEvent::Start(origin) => self.origin = Some(origin),
            ModelEvent::Switched { from, profile_id, failure } => emit(RunEventBody::ModelSwitched {
                from,
                profile_id,
                reason: failure.kind.as_str().to_owned(),
                message: failure.message,
            }),
            ModelEvent::TextDelta { text, .. } => self.read(&text, emit),
            ModelEvent::ThinkingDelta { text, .. } => emit(RunEventBody::ThinkingDelta { text }),
            ModelEvent::BlockEnd { block: Block::Text { text, text_signature }, .. } => {
                self.end_text(&text, text_signature, emit);
            }
            ModelEvent::BlockEnd { block, .. } => self.content.push(block),
            ModelEvent::BlockStart { .. } | ModelEvent::ArgumentsDelta { .. } => {}
            ModelEvent::Usage(usage) => self.usage = usage,
            ModelEvent::Done(stop_reason) => {
                let (content, usage) = (std::mem::take(&mut self.content), self.usage);
                let origin = self.origin.take();
                let heard = origin.map(|origin| Heard { content, origin, usage, stop_reason });
                return Some(heard.ok_or_else(cut_off));
            }
            ModelEvent::Failed(failure) => return Some(Err(failure)),
        }
        None
    }

    /// Nobody sends media yet, so the lines that name them are shown.
    fn read(&mut self, text: &str, emit: &(dyn Fn(RunEventBody) + Sync)) {
        let options = FilterOptions { keeps_media: true, ..FilterOptions::default() };
        let (filter, said) = self.text.get_or_insert_with(|| (StreamFilter::new(options), Said::default()));
        let pieces = filter.push(text);
        said.take(pieces, emit);
    }

    /// What is stored of a text is what was shown of it.
    fn end_text(&mut self, text: &str, signature: Option<String>, emit: &(dyn Fn(RunEventBody) + Sync)) {
        if self.text.is_none() {
            self.read(text, emit);
        }
        let Some((mut filter, mut said)) = self.text.take() else { return };
        let pieces = filter.finish();
        said.take(pieces, emit);
        if !said.thought.trim().is_empty() {
            let thinking = said.thought;
            self.content.push(Block::Thinking { thinking, thinking_signature: None, redacted: false });
        }
        if !said.visible.is_empty() {
            // A signature is for the words it came with.
            let text_signature = signature.filter(|_| said.visible == text);
            self.content.push(Block::Text { text: said.visible, text_signature });
        }
    }
}

impl Said {
    fn take(&mut self, pieces: Vec<Piece>, emit: &(dyn Fn(RunEventBody) + Sync)) {
        for piece in pieces {
            match piece {
                Piece::Visible(text) => {
                    self.visible.push_str(&text);
                    emit(RunEventBody::TextDelta { text });
                }
                Piece::Thought(text) => {
                    self.thought.push_str(&text);
                    emit(RunEventBody::ThinkingDelta { text });
                }
            }
        }
    }
}

fn cut_off() -> Failure {
    let error = ErrorBody::new(ErrorCode::ModelUnavailable, "the model's answer broke off");
    Failure::new(FailureKind::Broken, error.message)
}
