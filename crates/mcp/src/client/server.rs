//! One server: reached when somebody first wants it, reached again when it is gone, ended with the gateway.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, RequestId, ServerResult,
};
use rmcp::model::{CancelledNotificationParam, ProtocolVersion, SubscriptionFilter};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use serde_json::{Map, Value};
use tidegate_runtime::{Shutdown, Task, spawn};
use tidegate_tools::ToolFailure;
use tokio::sync::watch;

use super::connect::{
    About, Connection, Greeting, Link, LoginWanted, Means, Trouble, about, connect, list, service_failed,
    unlisted,
};
use super::spec::ServerSpec;
use super::stdio::with_stderr;
use super::tool::McpTool;

/// A server that answered for this long is not one that keeps failing.
const STEADY: Duration = Duration::from_mins(1);
/// A server that is tried again within this time is waited for.
const SOON: Duration = Duration::from_secs(5);

/// How often it is looked whether somebody signed in.
const LOOK: Duration = Duration::from_secs(1);

/// How it stands with a server.
#[derive(Clone)]
pub(crate) enum State {
    /// Nobody wanted it yet.
    Idle,
    Starting,
    Ready(Link),
    Failed {
        trouble: Trouble,
        again: Instant,
    },
    Closed,
}

pub(crate) struct Server {
    pub(crate) spec: ServerSpec,
    means: Means,
    state: watch::Sender<State>,
    /// What it listed last. It stays while the server is gone: what a model is shown does not come and go with it.
    tools: Mutex<Vec<Arc<McpTool>>>,
    /// How often it was reached anew.
    restarts: AtomicU32,
    closing: Shutdown,
    /// Looks after it; absent before it is wanted.
    task: Mutex<Option<Task<()>>>,
}

impl Server {
    pub(crate) fn new(spec: ServerSpec, means: Means) -> Arc<Self> {
        Arc::new(Self {
            spec,
            means,
            state: watch::Sender::new(State::Idle),
            tools: Mutex::default(),
            restarts: AtomicU32::new(0),
            closing: Shutdown::new(),
            task: Mutex::default(),
        })
    }

    /// Begins to reach it, unless that was done.
    pub(crate) fn begin(self: &Arc<Self>) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.is_none() && !self.closing.is_requested() {
            self.state.send_replace(State::Starting);
            *task = Some(spawn("mcp connection", Arc::clone(self).attend()));
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    pub(crate) fn tools(&self) -> Vec<Arc<McpTool>> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins, and waits until it is known whether it answers.
    pub(crate) async fn settled(self: &Arc<Self>) {
        self.begin();
        let mut state = self.state.subscribe();
        let known = |state: &State| !matches!(state, State::Idle | State::Starting);
        // A server that was there before is not waited for while it is being restarted.
        if self.tools().is_empty() {
            let _ = state.wait_for(known).await;
        }
    }

    pub(crate) async fn close(&self) {
        self.closing.request();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            let _ = task.join().await;
        }
        self.state.send_replace(State::Closed);
        // They hold the server in turn.
        self.tools.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn attend(self: Arc<Self>) {
        let mut failures: u32 = 0;
        let mut greeting = Greeting::Newest;
        loop {
            let began = Instant::now();
            let connected = tokio::select! {
                connected = connect(&self.spec, &self.means, greeting) => connected,
                () = self.closing.requested() => return,
            };
            let trouble = match connected {
                Ok(connection) => match self.stay(connection).await {
                    Some(trouble) => trouble,
                    None => return,
                },
                Err(trouble) => {
                    // Whoever wants a login has understood the greeting.
                    if trouble.login.is_none() {
                        let before = greeting;
                        greeting = before.other();
                        // One that stumbled over the newer one gets the older one at once.
                        let stumbled = before == Greeting::Newest && began.elapsed() < self.spec.startup;
                        if stumbled && failures == 0 {
                            continue;
                        }
                    }
                    trouble
                }
            };
            if began.elapsed() > STEADY {
                failures = 0;
            }
            let pause = self.pause(failures);
            failures = failures.saturating_add(1);
            tracing::warn!(server = self.spec.name, why = trouble.why, ?pause, "an MCP server is not there");
            let wants_login = trouble.login.is_some();
            self.state.send_replace(State::Failed { trouble, again: Instant::now() + pause });
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.signed_in(), if wants_login => {}
                () = self.closing.requested() => return,
            }
            self.restarts.fetch_add(1, Ordering::Relaxed);
            self.state.send_replace(State::Starting);
        }
    }

    pub(crate) fn restarts(&self) -> u32 {
        self.restarts.load(Ordering::Relaxed)
    }

    /// Until somebody signed in, here or in another process.
    async fn signed_in(&self) {
        let Some(logins) = &self.means.logins else { return std::future::pending().await };
        logins.signed_in(&self.spec.name, LOOK).await;
    }

    fn pause(&self, failures: u32) -> Duration {
        let (first, most) = self.means.pauses;
        first.saturating_mul(2_u32.saturating_pow(failures)).min(most)
    }

    /// Keeps a connection until it ends; `None` when it was ended from here.
    async fn stay(self: &Arc<Self>, connection: Connection) -> Option<Trouble> {
        let Connection { service, program, mut link } = connection;
        self.show(&link);
        let token = service.cancellation_token();
        let mut ended = Box::pin(service.waiting());
        let mut news = Box::pin(follow(link.clone()));
        loop {
            tokio::select! {
                () = self.closing.requested() => {
                    token.cancel();
                    let _ = tokio::time::timeout(SOON, ended).await;
                    if let Some(program) = program {
                        program.stop().await;
                    }
                    return None;
                }
                _ = &mut ended => break,
                () = &mut news => {}
                () = link.listener.changed.notified() => {
                    match tokio::time::timeout(self.spec.startup, list(&link.peer)).await {
                        Ok(Ok(listed)) => {
                            link.about = about(&self.spec, &link.peer, &listed);
                            self.show(&link);
                        }
                        Ok(Err(error)) => {
                            let why = unlisted(&self.spec.name, &error).why;
                            tracing::warn!(server = self.spec.name, why, "tools were not listed anew");
                        }
                        Err(_) => tracing::warn!(server = self.spec.name, "tools were not listed anew in time"),
                    }
                }
            }
        }
        let Some(program) = program else { return Some(Trouble::new("the connection ended")) };
        let why = match program.story.broken() {
            Some(broken) => broken,
            None => program.end().await.unwrap_or_else(|| "it closed its output".to_owned()),
        };
        let why = with_stderr(why, &program.story);
        Some(Trouble { why, stderr: program.story.stderr(), login: None })
    }

    fn show(self: &Arc<Self>, link: &Link) {
        let tools = link.about.tools.iter().map(|tool| McpTool::of(self, tool));
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = tools.collect();
        for left in &link.about.left_out {
            tracing::warn!(server = self.spec.name, tool = left.tool, why = left.why, "a tool is left out");
        }
        self.state.send_replace(State::Ready(link.clone()));
    }

    /// What it said about itself, if it is there.
    pub(crate) fn about(&self) -> Option<About> {
        match &*self.state.borrow() {
            State::Ready(link) => Some(link.about.clone()),
            _ => None,
        }
    }

    /// Why none of its tools are there, if that is so.
    pub(crate) fn missing(&self) -> Option<String> {
        let why = match &*self.state.borrow() {
            State::Ready(_) => return None,
            State::Failed { trouble, .. } => format!("is not there: {}", trouble.why),
            State::Idle | State::Starting => "has not answered yet".to_owned(),
            State::Closed => "was ended".to_owned(),
        };
        Some(format!("the MCP server {} {why}", self.spec.name))
    }

    /// The connection, once there is one. One that failed and is left alone for a while is not waited for.
    async fn link(self: &Arc<Self>) -> Result<Link, ToolFailure> {
        self.begin();
        let mut state = self.state.subscribe();
        let waiting = state.wait_for(|state| match state {
            State::Idle | State::Starting => false,
            State::Failed { again, .. } => again.saturating_duration_since(Instant::now()) > SOON,
            State::Ready(_) | State::Closed => true,
        });
        let found = tokio::time::timeout(self.spec.startup + SOON, waiting).await;
        let state = match found {
            Ok(Ok(state)) => state.clone(),
            Ok(Err(_)) => State::Closed,
            Err(_) => self.state(),
        };
        match state {
            State::Ready(link) => Ok(link),
            State::Failed { trouble, again } => {
                let seconds = again.saturating_duration_since(Instant::now()).as_secs() + 1;
                Err(self.failure(&format!("is not there: {}; it is tried again in {seconds} s", trouble.why)))
            }
            State::Idle | State::Starting => Err(self.failure("does not answer")),
            State::Closed => Err(self.failure("was ended")),
        }
    }

    fn failure(&self, what: &str) -> ToolFailure {
        let mut failure = ToolFailure::execution(format!("the MCP server {} {what}", self.spec.name));
        failure.details = Some(serde_json::json!({ "server": self.spec.name }));
        failure
    }

    /// Calls a tool once. Whatever happens, it is not called a second time: nobody knows what the first did. When the
    /// future is dropped, the server is told to stop.
    pub(crate) async fn call(
        self: &Arc<Self>,
        tool: &str,
        args: Map<String, Value>,
        update: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<CallToolResult, ToolFailure> {
        let link = self.link().await?;
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(args);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = link.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let mut handle = sent.map_err(|error| self.call_failed(&error))?;
        let mut notes = link.listener.follow(handle.progress_token.clone());
        let mut abandoned = Abandoned { peer: Some(link.peer.clone()), id: handle.id.clone() };
        let answer = loop {
            tokio::select! {
                biased;
                Some(note) = notes.recv() => update(&note),
                answer = &mut handle.rx => break answer,
            }
        };
        abandoned.peer = None;
        link.listener.forget(&handle.progress_token);
        match answer.unwrap_or(Err(ServiceError::TransportClosed)) {
            Ok(ServerResult::CallToolResult(result)) => Ok(result),
            Ok(ServerResult::InputRequiredResult(_)) => {
                Err(self
                    .failure("asks for something that only a person could give it, which is not supported"))
            }
            Ok(_) => Err(self.failure("answered something else than a result")),
            Err(error) => Err(self.call_failed(&error)),
        }
    }

    fn call_failed(&self, error: &ServiceError) -> ToolFailure {
        // It looked at who asks, and then did nothing.
        if let Some(login) = LoginWanted::within(error) {
            return self.failure(&format!("did not take the call: {}", login.told(&self.spec.name)));
        }
        match error {
            ServiceError::McpError(error) => {
                let said = tidegate_tools::truncate::head_bytes(&error.message, 500);
                self.failure(&format!("refused the call: {}", tidegate_policy::inert::inert_line(said)))
            }
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => self.failure(
                "went away during the call: whether it was done is not known, and it is not tried again by itself",
            ),
            other => self.failure(&format!("failed: {}", service_failed(other))),
        }
    }
}

/// Tells a server of the newer era that we want to hear of changes; one of the older era tells anyway.
async fn follow(link: Link) {
    let newer = link.peer.peer_info().is_some_and(|info| {
        info.protocol_version >= ProtocolVersion::V_2026_07_28
            && info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true))
    });
    if newer
        && let Ok(mut subscription) =
            link.peer.listen(SubscriptionFilter::builder().tools_list_changed().build()).await
    {
        while let Ok(Some(_)) = subscription.next().await {
            link.listener.changed.notify_one();
        }
    }
    std::future::pending::<()>().await;
}

/// A call whose answer nobody waits for any more.
struct Abandoned {
    peer: Option<Peer<RoleClient>>,
    id: RequestId,
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        let Some(peer) = self.peer.take() else { return };
        let params =
            CancelledNotificationParam::new(Some(self.id.clone()), Some("nobody waits for it".to_owned()));
        // It is one short message; the connection ends it if it cannot be sent.
        drop(spawn("mcp cancel", async move {
            let _ = peer.notify_cancelled(params).await;
        }));
    }
}
