//! A server that is a program here: it is held like every program of an agent, and speaks in lines of JSON.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tidegate_policy::exec::{Plan, PlanPlace};
use tidegate_policy::{Confiner, PermittedPlan, RunError, Running, Sink, Start, Stream};
use tidegate_tools::{Disk, truncate};
use tokio::sync::Notify;

use super::shown;
use super::spec::ProgramSpec;

/// Bytes of what a server wrote that may wait to be read; one message may be no longer.
const MOST_WAITING: usize = 16 * 1024 * 1024;
/// Bytes of its error output that are kept.
const TAIL: usize = 4 * 1024;
/// Bytes that are shown of a line that is no message.
const LONGEST_CHATTER: usize = 200;
/// How long a server may take to go once its input has ended.
const GOING: Duration = Duration::from_secs(2);

/// What went wrong with a program.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum StdioError {
    #[error("{0}")]
    Run(#[from] RunError),
    #[error("the message cannot be written: {0}")]
    Write(String),
}

/// What a server wrote, and what is known about its end. Shared with whoever asks why it failed.
#[derive(Default)]
pub(crate) struct Story {
    inner: Mutex<Wrote>,
    news: Notify,
}

#[derive(Default)]
struct Wrote {
    /// The beginning of a line that is still being written.
    line: Vec<u8>,
    lines: VecDeque<Vec<u8>>,
    /// Bytes in `lines`.
    waiting: usize,
    stderr: Vec<u8>,
    /// The first line that was no message.
    chatter: Option<String>,
    /// Why nothing more is read.
    broken: Option<String>,
    ended: bool,
}

impl Sink for Story {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut wrote = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        match stream {
            Stream::Stdout => wrote.take(bytes),
            Stream::Stderr => {
                wrote.stderr.extend_from_slice(bytes);
                let over = wrote.stderr.len().saturating_sub(TAIL);
                wrote.stderr.drain(..over);
            }
        }
        drop(wrote);
        self.news.notify_one();
    }
}

impl Wrote {
    fn take(&mut self, bytes: &[u8]) {
        if self.broken.is_some() {
            return;
        }
        if self.waiting + self.line.len() + bytes.len() > MOST_WAITING {
            self.breaks(format!("it wrote more than {} MB at once", MOST_WAITING >> 20));
            return;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.waiting += line.len();
                self.lines.push_back(line);
            }
        }
    }

    fn chats(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line.trim_ascii());
        if !text.is_empty() && self.chatter.is_none() {
            let shown = tidegate_policy::inert::inert_line(truncate::head_bytes(&text, LONGEST_CHATTER));
            self.chatter = Some(tidegate_runtime::redact(&shown).to_string());
        }
    }

    fn breaks(&mut self, why: String) {
        self.broken.get_or_insert(why);
        self.lines = VecDeque::new();
        self.line = Vec::new();
        self.waiting = 0;
    }
}

impl Story {
    fn with<T>(&self, look: impl FnOnce(&mut Wrote) -> T) -> T {
        look(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why reading stopped, if it stopped for something the server wrote.
    pub(crate) fn broken(&self) -> Option<String> {
        self.with(|wrote| wrote.broken.clone())
    }

    /// What it wrote where only messages belong, if it did.
    pub(crate) fn chatter(&self) -> Option<String> {
        self.with(|wrote| wrote.chatter.clone())
    }

    /// The end of its error output, as people may read it.
    pub(crate) fn stderr(&self) -> String {
        let text = self.with(|wrote| String::from_utf8_lossy(&wrote.stderr).into_owned());
        let text = tidegate_policy::inert::inert(&text);
        tidegate_runtime::redact(truncate::tail_bytes(text.trim(), TAIL)).to_string()
    }

    fn end(&self) {
        self.with(|wrote| wrote.ended = true);
        self.news.notify_one();
    }

    /// The next message; `None` when there will be no more. What is no message is passed over, as are lines that a
    /// server prints for people; half a message breaks the connection.
    async fn next(&self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let (line, over) = self.with(|wrote| {
                let line = wrote.lines.pop_front();
                wrote.waiting -= line.as_ref().map_or(0, Vec::len);
                (line, wrote.ended || wrote.broken.is_some())
            });
            let Some(line) = line else {
                if over {
                    return None;
                }
                self.news.notified().await;
                continue;
            };
            match read(&line) {
                Line::Message(message) => return Some(*message),
                Line::Chatter => self.with(|wrote| wrote.chats(&line)),
                Line::Broken(why) => self.with(|wrote| wrote.breaks(why)),
            }
        }
    }
}

enum Line {
    Message(Box<RxJsonRpcMessage<RoleClient>>),
    Chatter,
    Broken(String),
}

fn read(line: &[u8]) -> Line {
    let line = line.trim_ascii();
    if line.first() != Some(&b'{') {
        return Line::Chatter;
    }
    match serde_json::from_slice::<RxJsonRpcMessage<RoleClient>>(line) {
        Ok(message) => Line::Message(Box::new(message)),
        Err(_) if serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok() => Line::Chatter,
        Err(error) => Line::Broken(format!("it wrote something that is no JSON: {error}")),
    }
}

/// A program that was started.
pub(crate) struct Program {
    running: Arc<dyn Running>,
    pub(crate) story: Arc<Story>,
}

impl Program {
    /// Starts it. Dropping it, or the transport made from it, kills it.
    pub(crate) async fn start(
        spec: &ProgramSpec,
        confiner: &dyn Confiner,
        env: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let plan = plan(spec, env)?;
        let held = shown::confinement(&spec.confinement, &spec.argv, plan.env(), confiner)?;
        let runner = confiner.runner(&held).map_err(|error| error.to_string())?;
        let story = Arc::new(Story::default());
        let start = Start { pty: None, input: true };
        let sink = Arc::clone(&story) as Arc<dyn Sink>;
        let running = runner.start(PermittedPlan::of_operator(&plan), start, sink).await;
        let running: Arc<dyn Running> = Arc::from(running.map_err(|error| error.to_string())?);
        Ok(Self { running, story })
    }

    pub(crate) fn transport(&self) -> StdioTransport {
        let (running, story) = (Arc::clone(&self.running), Arc::clone(&self.story));
        let watched = Arc::clone(&running);
        // It ends when the program does, which is killed when this is dropped.
        drop(tidegate_runtime::spawn("mcp server", async move {
            watched.wait().await;
            story.end();
        }));
        StdioTransport { running, story: Arc::clone(&self.story) }
    }

    /// Ends it: politely, then not.
    pub(crate) async fn stop(&self) {
        let _ = self.running.close_input().await;
        if tokio::time::timeout(GOING, self.running.wait()).await.is_err() {
            self.running.kill();
            let _ = tokio::time::timeout(GOING, self.running.wait()).await;
        }
    }

    /// How it ended, for people; `None` while it runs.
    pub(crate) async fn end(&self) -> Option<String> {
        let exit = tokio::time::timeout(Duration::from_millis(200), self.running.wait()).await.ok()?;
        Some(exit.told("sandbox.limits of the server, or else agents.defaults.sandbox.limits"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.running.kill();
    }
}

/// Appends the end of the error output to a reason.
pub(crate) fn with_stderr(mut why: String, story: &Story) -> String {
    let stderr = story.stderr();
    if let Some(last) = stderr.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        let _ = write!(why, "; it last said: {}", truncate::head_bytes(last, 300));
    }
    why
}

fn plan(spec: &ProgramSpec, env: &BTreeMap<String, String>) -> Result<Plan, String> {
    let mut env = env.clone();
    env.extend(spec.env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())));
    let lookup = Disk::seen_from(&spec.folder, &env);
    let cwd = spec.folder.to_string_lossy().into_owned();
    let place = PlanPlace { cwd, env, added_env: BTreeMap::new() };
    Plan::of_argv(spec.argv.clone(), place, &lookup).map_err(|error| error.to_string())
}

/// Lines of JSON to and from a program.
pub(crate) struct StdioTransport {
    running: Arc<dyn Running>,
    story: Arc<Story>,
}

impl Transport<RoleClient> for StdioTransport {
    type Error = StdioError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), StdioError>> + Send + 'static {
        let running = Arc::clone(&self.running);
        async move {
            let mut line = serde_json::to_vec(&item).map_err(|error| StdioError::Write(error.to_string()))?;
            line.push(b'\n');
            Ok(running.write(&line).await?)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.story.next().await
    }

    async fn close(&mut self) -> Result<(), StdioError> {
        let _ = self.running.close_input().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_put_together_and_chatter_is_passed_over() {
        let story = Story::default();
        story.write(Stream::Stdout, b"listening on stdio\n{\"jsonrpc\":\"2.0\",\"id\":1,");
        story.write(Stream::Stdout, b"\"result\":{}}\n{\"no\":\"message\"}\n");
        story.end();
        assert!(story.next().await.is_some());
        assert!(story.next().await.is_none());
        assert_eq!(story.broken(), None);
    }

    #[tokio::test]
    async fn half_a_message_breaks_the_connection() {
        let story = Story::default();
        story.write(Stream::Stdout, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\n");
        assert!(story.next().await.is_none());
        assert!(story.broken().unwrap().contains("no JSON"));
    }

    #[tokio::test]
    async fn a_flood_breaks_the_connection_and_is_not_kept() {
        let story = Story::default();
        let chunk = vec![b'x'; 1024 * 1024];
        for _ in 0..40 {
            story.write(Stream::Stdout, &chunk);
        }
        assert!(story.next().await.is_none());
        assert!(story.broken().unwrap().contains("16 MB"));
        assert_eq!(story.with(|wrote| wrote.line.capacity()), 0);
    }

    #[test]
    fn only_the_end_of_the_error_output_is_kept_and_it_is_inert() {
        let story = Story::default();
        story.write(Stream::Stderr, "x".repeat(3 * TAIL).as_bytes());
        story.write(Stream::Stderr, b"\n\x1b[31mlast words\n");
        let told = with_stderr("it ended".to_owned(), &story);
        assert!(told.starts_with("it ended; it last said: ") && told.ends_with("last words"), "{told}");
        assert!(!told.contains('\x1b') && story.stderr().len() <= TAIL);
    }
}
