//! The task that keeps a link: it has the connection, makes it again, and knows what is owed to whom.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::Value;
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::{Hello, ResumeEvents, Resumed, ServerFrame, Subscribed, Unsubscribe};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::count::{AfterBreak, Broadcasts, Order};
use super::following::{Followed, Standing};
use super::socket::{CONNECT, Socket};
use super::{Command, LinkEvent, Request, backoff, refusal};
use crate::connect::Client;
use crate::error::ClientError;

/// How often one looks for readers that went and answers that nobody waits for.
const LOOK: Duration = Duration::from_secs(1);
/// How long the gateway may take for what the link asks for itself.
const OWN: Duration = Duration::from_secs(30);

/// Keeps the link until its last handle is dropped, or the gateway does not let it in any more.
pub(super) async fn keep(
    client: Client,
    socket: Socket,
    hello: Hello,
    commands: mpsc::Receiver<Command>,
    news: mpsc::Sender<LinkEvent>,
) {
    let mut keeper = Keeper {
        client,
        commands,
        news,
        stale: false,
        broadcasts: Broadcasts::default(),
        followed: HashMap::new(),
        next: 0,
        pending: HashMap::new(),
    };
    let mut connected = Some((socket, hello));
    while let Some((socket, hello)) = connected {
        let lost = match keeper.live(socket, hello).await {
            ControlFlow::Continue(lost) => lost,
            ControlFlow::Break(()) => return,
        };
        keeper.break_off();
        keeper.tell(LinkEvent::Down(lost));
        connected = keeper.connect_again().await;
    }
}

/// What an answer is waited for.
enum Owed {
    Call(oneshot::Sender<Result<Value, ClientError>>),
    Subscribed(u64),
    Resumed,
    Nothing,
}

struct Pending {
    owed: Owed,
    since: Instant,
}

struct Keeper {
    client: Client,
    commands: mpsc::Receiver<Command>,
    news: mpsc::Sender<LinkEvent>,
    /// A reader of news had no room: it is told that it missed some when it has.
    stale: bool,
    broadcasts: Broadcasts,
    followed: HashMap<u64, Followed>,
    /// Numbers requests and followed conversations.
    next: u64,
    pending: HashMap<u64, Pending>,
}

impl Keeper {
    /// Tries until it is connected. `None`: nobody wants it any more, or it may not enter.
    async fn connect_again(&mut self) -> Option<(Socket, Hello)> {
        for failed in 0_u32.. {
            let chance = RandomState::new().build_hasher().finish().to_le_bytes();
            let pause =
                backoff::pause(failed, u32::from_le_bytes([chance[0], chance[1], chance[2], chance[3]]));
            tokio::select! {
                () = sleep(pause) => {}
                () = self.abandoned() => return None,
            }
            let opened = tokio::select! {
                opened = Socket::open(&self.client, CONNECT) => opened,
                () = self.abandoned() => return None,
            };
            match opened {
                Ok(connected) => return Some(connected),
                Err(error) if is_final(&error) => {
                    self.tell(LinkEvent::Ended(error));
                    return None;
                }
                Err(error) => tracing::debug!(%error, failed, "the gateway cannot be reached yet"),
            }
        }
        None
    }

    /// Returns when the last handle is dropped. What is asked meanwhile waits in its queue.
    async fn abandoned(&self) {
        while !self.commands.is_closed() {
            sleep(LOOK / 10).await;
        }
    }

    /// One connection, to its end: why it is lost, or that nobody wants it any more.
    async fn live(&mut self, mut socket: Socket, hello: Hello) -> ControlFlow<(), ClientError> {
        let patience = Duration::from_millis(hello.policy.tick_ms.saturating_mul(2));
        let most = hello.policy.max_requests as usize;
        if let Err(lost) = self.greet(&mut socket, hello).await {
            return ControlFlow::Continue(lost);
        }
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard_at = Instant::now();
        loop {
            let step = tokio::select! {
                frame = socket.next() => match frame {
                    Ok(frame) => {
                        heard_at = Instant::now();
                        self.frame(&mut socket, frame).await
                    }
                    Err(lost) => Err(lost),
                },
                command = self.commands.recv(), if self.pending.len() < most => {
                    let Some(command) = command else {
                        socket.close().await;
                        return ControlFlow::Break(());
                    };
                    self.command(&mut socket, command).await
                }
                _ = look.tick() => self.look(&mut socket).await,
                () = sleep_until(heard_at + patience) => Err(ClientError::Deadline(patience)),
            };
            if let Err(lost) = step {
                return ControlFlow::Continue(lost);
            }
        }
    }

    /// Takes up again what the last connection left.
    async fn greet(&mut self, socket: &mut Socket, hello: Hello) -> Result<(), ClientError> {
        let after = self.broadcasts.met(&hello);
        self.tell(LinkEvent::Up(Box::new(hello)));
        match after {
            AfterBreak::Nothing => {}
            AfterBreak::Stale => self.tell(LinkEvent::Stale),
            AfterBreak::Resume { boot_id, after_seq } => {
                self.own(socket, "events.resume", &ResumeEvents { boot_id, after_seq }, Owed::Resumed)
                    .await?;
            }
        }
        self.subscribe(socket).await
    }

    async fn ask(
        &mut self,
        socket: &mut Socket,
        method: &str,
        params: Value,
        owed: Owed,
    ) -> Result<(), ClientError> {
        self.next += 1;
        self.pending.insert(self.next, Pending { owed, since: Instant::now() });
        socket.ask(self.next, method, params).await
    }

    /// Asks for something that the link needs itself.
    async fn own(
        &mut self,
        socket: &mut Socket,
        method: &str,
        params: &impl serde::Serialize,
        owed: Owed,
    ) -> Result<(), ClientError> {
        let params = serde_json::to_value(params).map_err(|error| self.client.protocol(error.to_string()))?;
        self.ask(socket, method, params, owed).await
    }

    async fn command(&mut self, socket: &mut Socket, command: Command) -> Result<(), ClientError> {
        match command {
            // Its caller's patience is over: it must not be done any more.
            Command::Call(Request { answer, .. }) if answer.is_closed() => Ok(()),
            Command::Call(Request { method, params, answer }) => {
                self.ask(socket, &method, params, Owed::Call(answer)).await
            }
            Command::Follow(what, reader) => {
                self.next += 1;
                self.followed.insert(self.next, Followed::new(*what, reader));
                self.subscribe(socket).await
            }
        }
    }

    /// Asks for every conversation that has to be asked for.
    async fn subscribe(&mut self, socket: &mut Socket) -> Result<(), ClientError> {
        let wanted: Vec<u64> =
            self.followed.iter().filter(|(_, followed)| followed.is_wanted()).map(|(id, _)| *id).collect();
        for id in wanted {
            let Some(followed) = self.followed.get_mut(&id) else { continue };
            followed.standing = Standing::Asked;
            let request = followed.request();
            self.own(socket, "session.subscribe", &request, Owed::Subscribed(id)).await?;
        }
        Ok(())
    }

    async fn unsubscribe(&mut self, socket: &mut Socket, sub: String) -> Result<(), ClientError> {
        self.own(socket, "session.unsubscribe", &Unsubscribe { sub }, Owed::Nothing).await
    }

    async fn frame(&mut self, socket: &mut Socket, frame: ServerFrame) -> Result<(), ClientError> {
        match frame {
            ServerFrame::Response { id, ok, payload, error } => {
                let Some(Pending { owed, .. }) = id.parse().ok().and_then(|id| self.pending.remove(&id))
                else {
                    return Ok(());
                };
                let answer = if ok { Ok(payload) } else { Err(refusal(error, &self.client)) };
                self.answer(socket, owed, answer).await
            }
            ServerFrame::Event { event, payload, sub: Some(sub), n: Some(n), .. } => {
                self.told(socket, &event, payload, &sub, n).await
            }
            ServerFrame::Event { event, payload, seq: Some(seq), .. } => {
                self.broadcast(socket, event, payload, seq).await
            }
            // Signs of life.
            ServerFrame::Event { .. } => Ok(()),
        }
    }

    async fn answer(
        &mut self,
        socket: &mut Socket,
        owed: Owed,
        answer: Result<Value, ClientError>,
    ) -> Result<(), ClientError> {
        match owed {
            Owed::Call(caller) => {
                let _ = caller.send(answer);
            }
            Owed::Nothing => {}
            Owed::Resumed => {
                let resumed: Resumed = read(&self.client, answer?)?;
                if !resumed.resumed {
                    self.broadcasts.skip_to(resumed.seq);
                    self.tell(LinkEvent::Stale);
                }
            }
            Owed::Subscribed(id) => match answer {
                Ok(answer) => {
                    let Subscribed { sub } = read(&self.client, answer)?;
                    match self.followed.get_mut(&id) {
                        Some(followed) => followed.opened(sub),
                        None => return self.unsubscribe(socket, sub).await,
                    }
                }
                Err(error) if error.is_retryable() => {
                    if let Some(followed) = self.followed.get_mut(&id) {
                        followed.standing = Standing::Wanted;
                    }
                }
                Err(error) => {
                    if let Some(followed) = self.followed.remove(&id) {
                        followed.refused(error);
                    }
                }
            },
        }
        Ok(())
    }

    /// An event of a conversation. Those of a subscription that was given up belong to nobody.
    async fn told(
        &mut self,
        socket: &mut Socket,
        event: &str,
        payload: Value,
        sub: &str,
        n: u64,
    ) -> Result<(), ClientError> {
        let is_it =
            |followed: &&mut Followed| matches!(&followed.standing, Standing::Open(name) if name == sub);
        let Some(followed) = self.followed.values_mut().find(is_it) else { return Ok(()) };
        if followed.hear(event, payload, n) {
            return Ok(());
        }
        tracing::debug!(sub, n, "something was left out; the conversation is asked for again");
        self.unsubscribe(socket, sub.to_owned()).await?;
        self.subscribe(socket).await
    }

    async fn broadcast(
        &mut self,
        socket: &mut Socket,
        event: String,
        payload: Value,
        seq: u64,
    ) -> Result<(), ClientError> {
        match self.broadcasts.hear(seq) {
            Order::Again => Ok(()),
            Order::Next if event == "missed" => {
                self.tell(LinkEvent::Stale);
                Ok(())
            }
            Order::Next => {
                self.tell(LinkEvent::News { event, payload });
                Ok(())
            }
            Order::Gap if self.pending.values().any(|pending| matches!(pending.owed, Owed::Resumed)) => {
                Ok(())
            }
            Order::Gap => {
                let (boot_id, after_seq) = self.broadcasts.place();
                self.own(socket, "events.resume", &ResumeEvents { boot_id, after_seq }, Owed::Resumed).await
            }
        }
    }

    /// Tells whoever reads the news. One that has no room misses some, and is told so when it has.
    fn tell(&mut self, event: LinkEvent) {
        if self.stale {
            self.stale = self.news.try_send(LinkEvent::Stale).is_err();
        }
        if let Err(mpsc::error::TrySendError::Full(_)) = self.news.try_send(event) {
            self.stale = true;
        }
    }

    /// Forgets what nobody waits for, and asks for what there is room for again.
    async fn look(&mut self, socket: &mut Socket) -> Result<(), ClientError> {
        if self.stale && self.news.try_send(LinkEvent::Stale).is_ok() {
            self.stale = false;
        }
        if self.pending.values().any(Pending::is_overdue) {
            return Err(ClientError::Deadline(OWN));
        }
        self.pending.retain(|_, pending| !matches!(&pending.owed, Owed::Call(caller) if caller.is_closed()));
        let mut left = Vec::new();
        self.followed.retain(|_, followed| {
            if let (true, Standing::Open(sub)) = (followed.is_left(), &followed.standing) {
                left.push(sub.clone());
            }
            !followed.is_left()
        });
        for sub in left {
            self.unsubscribe(socket, sub).await?;
        }
        self.subscribe(socket).await
    }

    /// The connection is gone: nobody can tell what became of what was asked on it.
    fn break_off(&mut self) {
        for (_, pending) in self.pending.drain() {
            if let Owed::Call(caller) = pending.owed {
                let _ = caller.send(Err(ClientError::Closing { at: self.client.at() }));
            }
        }
        self.followed.retain(|_, followed| !followed.is_left());
        for followed in self.followed.values_mut().filter(|followed| followed.standing != Standing::Full) {
            followed.standing = Standing::Wanted;
        }
    }
}

impl Pending {
    /// Callers have their own patience.
    fn is_overdue(&self) -> bool {
        !matches!(self.owed, Owed::Call(_)) && self.since.elapsed() > OWN
    }
}

fn read<T: serde::de::DeserializeOwned>(client: &Client, value: Value) -> Result<T, ClientError> {
    serde_json::from_value(value).map_err(|error| client.protocol(error.to_string()))
}

/// Whether trying again is of no use.
fn is_final(error: &ClientError) -> bool {
    matches!(error, ClientError::Server { problem, .. }
        if matches!(problem.code, ErrorCode::Unauthorized | ErrorCode::Forbidden | ErrorCode::NotFound))
}
