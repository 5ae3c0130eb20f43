//! From an end to the parts that go out. The parts join FINISH, so they are made before it.

use tidegate_agent::Answer;
use tidegate_agent::text::{SentTexts, spoken};
use tidegate_net::Redacted;
use tidegate_protocol::{Block, ErrorBody, OutboxId, Part, Place, Quote, Reply, ReplyTarget, Verbose};
use tidegate_runtime::new_id;
use tidegate_storage::{AuditEvent, NewPart};

use crate::error::EngineError;
use crate::execute::Work;
use crate::start::Core;
use crate::texts;

/// Characters of a call, or of what came of it, that are told beside an answer.
const TOLD: usize = 200;

/// What stands where a secret stood.
const LEAK_MARK: &str = "[***]";

impl Core {
    /// The finished parts of a run's reply; none when its caller waits or its log is the answer.
    pub(crate) async fn reply_parts(
        &self,
        work: &Work,
        outcome: &Result<String, ErrorBody>,
    ) -> Result<Vec<NewPart>, EngineError> {
        let ReplyTarget::Channel { channel, account_id, target, in_reply_to } = &work.reply else {
            return Ok(Vec::new());
        };
        // Nothing of a run that only shows what it would do goes out, not even why it failed.
        if work.spec.shadow || self.settings.is_shadow(&work.key.scope.agent) {
            return Ok(Vec::new());
        }
        let (text, error) = match outcome {
            Ok(text) => (text.clone(), None),
            Err(error) => {
                let values: [(&str, &dyn std::fmt::Display); 2] =
                    [("message", &error.message), ("code", &error.code)];
                (texts::COULD_NOT_ANSWER.fill(self.settings.language(), &values), Some(error.clone()))
            }
        };
        let text = self.without_secrets(work, text).await;
        let error = self.error_without_secrets(error).await;
        let quote = in_reply_to.as_ref().map(|id| Quote { message_id: id.clone(), text: work.input.text() });
        let reply = Reply {
            channel: channel.clone(),
            account_id: account_id.clone(),
            target: target.clone(),
            text,
            attachments: Vec::new(),
            quote,
            error,
        };
        self.render(&reply)
            .into_iter()
            .map(|Part { body, lane }| {
                let id: OutboxId = new_id(self.clock.as_ref())?;
                Ok(NewPart { id, channel: channel.clone(), account_id: account_id.clone(), lane, body })
            })
            .collect()
    }

    /// A text as it may go out: what is a secret of this installation is taken out of it, told and put on record. In the
    /// conversation it stays as it was said.
    async fn without_secrets(&self, work: &Work, text: String) -> String {
        let Some(Redacted { text, secrets }) = self.toolbox.leaks.redact(&text, LEAK_MARK).await else {
            return text;
        };
        let named = secrets.join(", ");
        tracing::warn!(run = %work.run, secrets = named, "secrets were taken out of an answer");
        let event = AuditEvent {
            action: "reply.redacted",
            resource_type: "run",
            resource_id: work.run.to_string(),
            metadata: serde_json::json!({ "secrets": secrets, "sessionKey": work.key.to_string() }),
            now: self.clock.now_ms(),
        };
        match self.store.audit_event(&work.principal, event).await {
            Ok(()) => self.unsealed.notify_one(),
            Err(error) => {
                self.watch(&error);
                tracing::warn!(%error, run = %work.run, "that an answer was changed is not on record");
            }
        }
        let told = texts::SECRETS_REMOVED.fill(self.settings.language(), &[("secrets", &named)]);
        format!("{text}\n\n{told}")
    }

    /// Why there is no answer, as it may go out. That something was taken out is told and on record with the text, which
    /// quotes the same words.
    async fn error_without_secrets(&self, error: Option<ErrorBody>) -> Option<ErrorBody> {
        let mut error = error?;
        let leaks = &self.toolbox.leaks;
        if let Some(redacted) = leaks.redact(&error.message, LEAK_MARK).await {
            error.message = redacted.text;
        }
        let details = error.details.as_ref().map(ToString::to_string).unwrap_or_default();
        if leaks.find_known(&[details.as_bytes()]).await.is_some() {
            error.details = None;
        }
        Some(error)
    }

    /// What goes out of an answer: nothing when the agent has nothing to say, said it already, or only shows what it
    /// would do.
    pub(crate) async fn answer_parts(
        &self,
        work: &Work,
        answer: &Answer,
    ) -> Result<Vec<NewPart>, EngineError> {
        let mut sent = SentTexts::default();
        answer.sent.iter().for_each(|text| sent.note(text));
        let mut text = self.told_tools(work.spec.verbose, answer);
        let said = spoken(&answer.text);
        // No network takes a message without a word, and whoever chose to be silent does not tell of tools either.
        let is_silent = said.trim().is_empty() && (text.is_empty() || !answer.text.trim().is_empty());
        if is_silent || sent.contains(said) {
            return Ok(Vec::new());
        }
        text.push_str(said);
        let mut parts = self.reply_parts(work, &Ok(text)).await?;
        if !parts.is_empty() && answer.summed_up && self.tells_of_summaries(work) {
            // Behind the answer: where a message fails those behind it are not sent, and the answer matters more.
            let notice = texts::WAS_SUMMED_UP.in_language(self.settings.language());
            parts.extend(self.reply_parts(work, &Ok(notice.to_owned())).await?);
        }
        Ok(parts)
    }

    /// Many read a group, and it is nobody's own conversation there.
    fn tells_of_summaries(&self, work: &Work) -> bool {
        let is_group = matches!(work.key.place, Place::Group { .. });
        !is_group && self.settings.agent_defaults().compaction.notify
    }

    /// The tools that were used, for whoever wants to see them before the answer.
    fn told_tools(&self, verbose: Verbose, answer: &Answer) -> String {
        let mut told = String::new();
        let calls = answer.calls.iter().filter(|_| verbose != Verbose::Off);
        for (call, result) in calls {
            let text = if result.ok { texts::TOOL_USED } else { texts::TOOL_FAILED };
            let arguments = shortened(&call.args.to_string());
            told.push_str(
                &text.fill(self.settings.language(), &[("tool", &call.name), ("call", &arguments)]),
            );
            told.push('\n');
            if verbose == Verbose::Full {
                told.push_str(&shortened(&text_of(&result.content)));
                told.push('\n');
            }
        }
        if !told.is_empty() {
            told.push('\n');
        }
        tidegate_runtime::redact(&told).into_owned()
    }

    /// As its connector renders it. Without one the reply is kept as it is: it cannot go out, but it can be read.
    fn render(&self, reply: &Reply) -> Vec<Part> {
        if let Some(supervised) = self.connector(&reply.channel, &reply.account_id) {
            return supervised.connector.render(reply);
        }
        let body = serde_json::json!({ "target": reply.target, "text": reply.text }).to_string();
        let lane = tidegate_protocol::lane(&reply.channel, &reply.account_id, &reply.target);
        vec![Part { body, lane }]
    }
}

/// The beginning of what a tool was told or said.
fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(TOLD).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn text_of(content: &[Block]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        Block::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
