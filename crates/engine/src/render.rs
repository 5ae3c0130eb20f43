//! From an end to the parts that go out. The parts join FINISH, so they are made before it.

use tidegate_protocol::{ErrorBody, OutboxId, Part, Quote, Reply, ReplyTarget};
use tidegate_runtime::new_id;
use tidegate_storage::NewPart;

use crate::error::EngineError;
use crate::execute::Work;
use crate::start::Core;
use crate::texts;

impl Core {
    /// The finished parts of a run's reply; none when its caller waits or its log is the answer.
    pub(crate) fn reply_parts(
        &self,
        work: &Work,
        outcome: &Result<String, ErrorBody>,
    ) -> Result<Vec<NewPart>, EngineError> {
        let ReplyTarget::Channel { channel, account_id, target, in_reply_to } = &work.reply else {
            return Ok(Vec::new());
        };
        let (text, error) = match outcome {
            Ok(text) => (text.clone(), None),
            Err(error) => {
                let values: [(&str, &dyn std::fmt::Display); 2] =
                    [("message", &error.message), ("code", &error.code)];
                (texts::COULD_NOT_ANSWER.fill(self.settings.language(), &values), Some(error.clone()))
            }
        };
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
