//! One call of one model with one credential: the request sent, the answer read, every failure classified.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use tidegate_net::{Call, Client, NetError, Origin as Address, Reply, Timeouts};
use tidegate_protocol::Usage;
use tidegate_runtime::Clock;

use crate::blot::Blot;
use crate::catalogue::ModelInfo;
use crate::classify::{classify, retry_after};
use crate::failure::{Failure, FailureKind};
use crate::reading::Reading;
use crate::request::Request;
use crate::stream::{ModelEvent, ModelStream};
use crate::wire::{Access, Prepared, Target, Wire};

/// Most bytes of an error's body that are read.
const MOST_ERROR: usize = 64 << 10;
/// How long the end of a body is waited for once the model has stopped.
const LAST_BYTES: Duration = Duration::from_secs(2);

/// Everything one call needs.
pub(crate) struct Calling {
    pub(crate) client: Client,
    pub(crate) wire: Arc<dyn Wire>,
    pub(crate) model: Arc<ModelInfo>,
    pub(crate) access: Access,
    pub(crate) timeouts: Timeouts,
    /// For the whole call.
    pub(crate) limit: Option<Duration>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Where the call stands.
enum Step {
    Ready(Box<Request>),
    Reading {
        reply: Reply,
        reading: Box<Reading>,
        deadline: Option<tokio::time::Instant>,
        told: Option<Usage>,
    },
    Over,
}

/// The answer, without a `Start`: whoever chose the model says who answers.
pub(crate) fn stream(calling: Calling, request: Request) -> ModelStream {
    let begin = Step::Ready(Box::new(request));
    Box::pin(stream::unfold((calling, begin), |(calling, step)| async move {
        let (event, step) = calling.advance(step).await?;
        Some((event, (calling, step)))
    }))
}

impl Calling {
    async fn advance(&self, mut step: Step) -> Option<(ModelEvent, Step)> {
        loop {
            step = match step {
                Step::Over => return None,
                Step::Ready(request) => match self.begin(&request).await {
                    Ok(step) => step,
                    Err(failure) => {
                        return Some((ModelEvent::Failed(self.blot().failure(failure)), Step::Over));
                    }
                },
                Step::Reading { mut reply, mut reading, deadline, told } => {
                    // Told as soon as it is known: a call that is dropped half-way was paid for.
                    if let Some(usage) = reading.usage().filter(|usage| told.as_ref() != Some(usage)) {
                        let told = Some(usage);
                        return Some((
                            ModelEvent::Usage(usage),
                            Step::Reading { reply, reading, deadline, told },
                        ));
                    }
                    if let Some(event) = reading.next_event() {
                        return Some(match event {
                            ModelEvent::Failed(failure) => {
                                (ModelEvent::Failed(self.blot().failure(failure)), Step::Over)
                            }
                            ModelEvent::Done(_) => (event, Step::Over),
                            event => (event, Step::Reading { reply, reading, deadline, told }),
                        });
                    }
                    self.read(&mut reply, &mut reading, deadline).await;
                    Step::Reading { reply, reading, deadline, told }
                }
            };
        }
    }

    /// Sends the request and looks at the answer's head.
    async fn begin(&self, request: &Request) -> Result<Step, Failure> {
        let deadline = self.limit.map(|limit| tokio::time::Instant::now() + limit);
        let target = Target { model: &self.model, access: &self.access, now_ms: self.clock.now_ms() };
        let prepared = self.wire.prepare(request, &target)?;
        let sent = self.client.call(outgoing(prepared, self.timeouts));
        let reply = within(deadline, sent).await.ok_or_else(|| self.too_long())?;
        let reply = reply.map_err(|error| failed_net(&error))?;
        if !(200..300).contains(&reply.status()) {
            let meaning = |status, body: &str| self.wire.refused(status, body, self.clock.now_ms());
            let read = within(deadline, refused(reply, &self.blot(), meaning)).await;
            return Err(read.unwrap_or_else(|| self.too_long()));
        }
        if let Some(kind) = reply.header("content-type").filter(|kind| kind.starts_with("text/html")) {
            let message =
                format!("expected a model's answer and got a web page ({kind}); is the base URL right?");
            return Err(Failure::new(FailureKind::Broken, message));
        }
        let reading = Box::new(Reading::new(self.wire.as_ref(), &self.model, request));
        Ok(Step::Reading { reply, reading, deadline, told: None })
    }

    async fn read(&self, reply: &mut Reply, reading: &mut Reading, deadline: Option<tokio::time::Instant>) {
        // A model that has stopped has said everything; a server that keeps the connection open is not waited for.
        let last = reading.has_stopped().then(|| tokio::time::Instant::now() + LAST_BYTES);
        let until = [deadline, last].into_iter().flatten().min();
        match within(until, reply.chunk()).await {
            None if reading.has_stopped() => reading.end(),
            None => reading.broke(self.too_long()),
            Some(Err(error)) => reading.broke(failed_net(&error)),
            Some(Ok(Some(bytes))) => reading.feed(bytes.as_ref()),
            Some(Ok(None)) => reading.end(),
        }
    }

    /// What this call sends and nobody may read.
    fn blot(&self) -> Blot<'_> {
        Blot::of(&self.access, &self.model.headers)
    }

    fn too_long(&self) -> Failure {
        let seconds = self.limit.unwrap_or_default().as_secs_f64();
        Failure::new(FailureKind::Timeout, format!("the model gave no complete answer within {seconds} s"))
    }
}

pub(crate) fn outgoing(prepared: Prepared, timeouts: Timeouts) -> Call {
    let Prepared { method, url, headers, body } = prepared;
    Call { origin: Address::Configured, method, url, headers, body, timeouts }
}

async fn within<T>(deadline: Option<tokio::time::Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        None => Some(work.await),
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.ok(),
    }
}

/// What a refused call means, where no format has a word in it.
pub(crate) async fn refusal(reply: Reply, blot: &Blot<'_>) -> Failure {
    blot.failure(refused(reply, blot, |status, body| classify(Some(status), body)).await)
}

/// The body is blotted before it is read: what it means is cut to a length, and a secret must not be cut in two.
async fn refused(reply: Reply, blot: &Blot<'_>, meaning: impl FnOnce(u16, &str) -> Failure) -> Failure {
    let status = reply.status();
    let wait = retry_after(|name| reply.header(name));
    // A body that cannot be read to its end still had a status.
    let body = reply.bytes(MOST_ERROR).await.unwrap_or_default();
    let failure = meaning(status, &blot.text(&String::from_utf8_lossy(&body)));
    Failure { retry_after: wait.or(failure.retry_after), ..failure }
}

pub(crate) fn failed_net(error: &NetError) -> Failure {
    let kind = if error.is_timeout() { FailureKind::Timeout } else { FailureKind::Broken };
    Failure::new(kind, tidegate_runtime::redact(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_server_is_a_timeout_and_a_broken_connection_is_tried_again() {
        let host = || "h".to_owned();
        let idle = NetError::Idle { host: host(), seconds: 1 };
        assert_eq!(failed_net(&idle).kind, FailureKind::Timeout);
        assert_eq!(
            failed_net(&NetError::ConnectTimeout { host: host(), seconds: 1 }).kind,
            FailureKind::Timeout
        );
        // On purpose: the upstream gateway calls a reset (ECONNRESET) a timeout and goes to another model. Here the same
        // one is asked again first, since nothing was shown.
        let reset = NetError::Broken { host: host(), cause: "connection reset".to_owned() };
        assert_eq!(failed_net(&reset).kind, FailureKind::Broken);
    }
}
