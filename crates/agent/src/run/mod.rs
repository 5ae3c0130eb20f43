//! The loop: ask, run what was called for, ask again, until there is an answer.

mod ask;
mod brought;
mod log;
mod past;
mod quiet;
mod resume;
mod room;
#[cfg(test)]
mod tests;
mod turn;
mod work;

use tidegate_models::{Model, ToolChoice, ToolSpec};
use tidegate_protocol::{
    Block, ErrorBody, JoinMode, Message, Origin, RunEventBody, StopReason, ToolCall, ToolResult,
};
use tidegate_runtime::{Clock, RandomnessError};
use tidegate_storage::{Absorb, Journal, NewPart, StoreError};

use crate::context::Line;
use crate::desk::Desk;
use crate::toolbox::{ToolBox, ToolBoxError};

use log::Unsaid;
pub use past::{calls_made, calls_of, step_limit};
pub(crate) use quiet::Quiet;
use room::Before;
pub use turn::{Answer, Flush, Manual, Outcome, StepLimit, Turn, Window};
pub(crate) use work::failed;

/// Rounds of tools unless somebody says otherwise.
const MOST_ROUNDS: u32 = 50;
/// What a person reads when the model has nothing to say after its last round.
const NO_WORDS: &str = "The limit of tool steps was reached before there was an answer.";

/// What a run works with.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    pub model: &'a dyn Model,
    pub journal: &'a dyn Journal,
    pub tools: &'a dyn ToolBox,
    pub desk: &'a dyn Desk,
    pub clock: &'a dyn Clock,
}

/// Runs until there is an answer, or none can come.
pub async fn run(turn: &Turn, parts: Parts<'_>) -> Result<Outcome, StoreError> {
    let answered = async { Run::open(turn, parts).await?.go().await };
    ended(answered.await.map(|answer| Outcome::Answered(Box::new(answer))))
}

/// Sums the conversation up because somebody asked for it.
pub async fn sum_up(
    turn: &Turn,
    parts: Parts<'_>,
    instructions: Option<&str>,
) -> Result<Outcome, StoreError> {
    let done = async {
        let mut run = Run::open(turn, parts).await?;
        // The command itself is no part of the conversation.
        run.forget_input();
        let before = run.tokens();
        let summed_up = run.sum_up(instructions).await?;
        let after = run.tokens();
        Ok(if summed_up { Outcome::SummedUp { before, after } } else { Outcome::NothingToSumUp })
    };
    ended(done.await)
}

fn ended(outcome: Result<Outcome, Stop>) -> Result<Outcome, StoreError> {
    match outcome {
        Ok(outcome) => Ok(outcome),
        Err(Stop::Failed(error)) => Ok(Outcome::Failed { error }),
        Err(Stop::Closing) => Ok(Outcome::Closing),
        Err(Stop::Store(error)) => Err(error),
    }
}

/// Why a run goes no further.
enum Stop {
    Store(StoreError),
    Failed(ErrorBody),
    Closing,
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<RandomnessError> for Stop {
    fn from(error: RandomnessError) -> Self {
        Self::Store(StoreError::Internal(error.to_string()))
    }
}

impl From<ToolBoxError> for Stop {
    fn from(error: ToolBoxError) -> Self {
        match error {
            ToolBoxError::Store(error) => Self::Store(error),
            ToolBoxError::Closing => Self::Closing,
            ToolBoxError::Failed(message) => Self::Store(StoreError::Internal(message)),
        }
    }
}

/// A run under way.
struct Run<'a> {
    turn: &'a Turn,
    parts: Parts<'a>,
    system: Vec<String>,
    /// The tools that the model is shown.
    tools: std::borrow::Cow<'a, [ToolSpec]>,
    /// What was summed up before the lines.
    before: Before,
    /// The conversation as it stands: the log, then what is not in it yet.
    lines: Vec<Line>,
    unsaid: Unsaid,
    /// The log's last position, once this attempt has written to it.
    head: i64,
    calls: Vec<(ToolCall, ToolResult)>,
    rounds: u32,
    limit: Option<StepLimit>,
    sent: Vec<String>,
    /// The longest answer there is money for, if that is less than the run was promised.
    affordable: Option<u32>,
    /// A model was asked since the run was accepted, by whichever attempt.
    has_asked: bool,
}

impl Run<'_> {
    async fn go(mut self) -> Result<Answer, Stop> {
        if let Some((text, origin, stop)) = self.answered_before() {
            return Ok(self.answer(text, origin, stop));
        }
        self.finish_round().await?;
        self.do_manual().await?;
        loop {
            self.make_room().await?;
            let heard = self.ask(self.choice()).await?;
            let (origin, calls, stop) = (heard.origin.clone(), heard.calls(), heard.stop_reason);
            let message = heard.message(self.parts.clock.now_ms());
            if self.limit.is_some() {
                let text = self.last_words(message)?;
                return Ok(self.answer(text, origin, stop));
            }
            let text = message.text();
            self.say(message)?;
            if calls.is_empty() {
                if self.followed_up().await? {
                    continue;
                }
                return Ok(self.answer(text, origin, stop));
            }
            let (handed, calls) = self.handed(calls);
            if !handed.is_empty() {
                self.do_own(calls).await?;
                return Ok(Answer { handed, ..self.answer(text, origin, stop) });
            }
            if self.rounds >= self.most_rounds() {
                self.refuse_round(&calls).await?;
                continue;
            }
            self.rounds += 1;
            self.work(calls).await?;
            self.steered().await?;
        }
    }

    fn answer(self, text: String, origin: Origin, stop_reason: StopReason) -> Answer {
        let (context_tokens, summed_up) = (self.before.tokens, self.has_summed_up());
        Answer {
            entries: self.unsaid.entries,
            text,
            origin,
            calls: self.calls,
            limit: self.limit,
            context_tokens,
            sent: self.sent,
            handed: Vec::new(),
            summed_up,
            stop_reason,
        }
    }

    /// A model that was offered no tools may name one all the same.
    fn most_rounds(&self) -> u32 {
        let tools = &self.turn.spec.tools;
        if tools.model { tools.max_steps.unwrap_or(MOST_ROUNDS) } else { 0 }
    }

    /// The list of tools stays the same to the end: a shorter one would empty the provider's cache.
    fn choice(&self) -> ToolChoice {
        if self.limit.is_some() { ToolChoice::None } else { self.brought_choice() }
    }

    /// The model called tools once more than it may. It learns so, and answers without them.
    async fn refuse_round(&mut self, calls: &[ToolCall]) -> Result<(), Stop> {
        let steps = self.most_rounds();
        let tool = calls.first().map(|call| call.name.clone()).unwrap_or_default();
        // As before a round that is run: with the commit that puts it into the log, so once.
        let parts = self.spoken().await;
        self.unsaid.parts.extend(parts);
        for call in calls {
            let message = match steps {
                0 => "not run: there are no tools here; answer without them".to_owned(),
                _ => {
                    format!("not run: the limit of {steps} rounds of tools is reached; answer without tools")
                }
            };
            let mut result = failed(&call.name, message);
            result.data = Some(past::refusal(steps));
            self.tell_started(call);
            self.tell_ended(call, &result, false);
            self.say_result(call, &result)?;
        }
        self.limit = Some(StepLimit { steps, tool });
        self.commit(Vec::new()).await
    }

    /// What is said after the last round. Calls that came all the same are left out: nobody will answer them.
    fn last_words(&mut self, message: Message) -> Result<String, Stop> {
        let message = without_calls(message);
        let text = message.text();
        self.say(message)?;
        Ok(text)
    }

    /// Whether somebody wrote what is to be read before the run stops.
    async fn followed_up(&mut self) -> Result<bool, Stop> {
        if !self.parts.desk.is_joined(JoinMode::FollowUp) {
            return Ok(false);
        }
        // The answer stands in the log before what follows it, and is sent before what is said to that.
        let parts = self.spoken().await;
        self.commit(Vec::new()).await?;
        self.take_in(JoinMode::FollowUp, parts).await
    }

    /// Reads what somebody wrote meanwhile.
    async fn steered(&mut self) -> Result<(), Stop> {
        if self.parts.desk.is_joined(JoinMode::Note) {
            self.take_in(JoinMode::Note, Vec::new()).await?;
        }
        Ok(())
    }

    async fn take_in(&mut self, mode: JoinMode, parts: Vec<NewPart>) -> Result<bool, Stop> {
        let wish = Absorb { mode, parts, now: self.parts.clock.now_ms() };
        self.parts.desk.catches_up();
        let joined = self.parts.journal.absorb(&self.turn.lease, wish).await?;
        self.parts.desk.booked(&[]);
        for absorbed in &joined {
            let text = absorbed.input.text();
            self.parts.desk.emit(RunEventBody::Steered { run_id: absorbed.run, text });
            // Everything this run said is in the log by now, and nobody else writes there.
            self.head += 1;
            self.lines.push(Line { seq: Some(self.head), message: absorbed.input.clone() });
        }
        Ok(!joined.is_empty())
    }
}

/// A message with its words only, and with some if it had none.
fn without_calls(message: Message) -> Message {
    let Message::Assistant { mut content, origin, usage, stop_reason, error_message, timestamp } = message
    else {
        return message;
    };
    content.retain(|block| !matches!(block, Block::ToolCall { .. }));
    let speaks = |block: &Block| matches!(block, Block::Text { text, .. } if !text.trim().is_empty());
    if !content.iter().any(speaks) {
        content.push(Block::text(NO_WORDS));
    }
    Message::Assistant { content, origin, usage, stop_reason, error_message, timestamp }
}
