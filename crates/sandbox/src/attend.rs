//! Attending to one supervisor from its start to its burial: the gateway's side of the socket.

use std::any::Any;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown};
use rustix::process::{Pid, Signal, kill_process};
use tidegate_policy::{Exit, Refusal, Refused, RunError, Sink, Stream};
use tokio::net::UnixStream;
use tokio::sync::{Mutex, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::host::Supervisor;
use crate::input::Input;
use crate::order::{ASK, Ending, KILL, Order, Report, line};
use crate::running::Wish;
use crate::sweep;
use crate::vessel::{self, Vessel};

/// How long a supervisor may take to do what it is told. It gives up by itself before that.
const PATIENCE: Duration = Duration::from_secs(13);

/// How long output is awaited from pipes that something which cannot be killed still holds.
const DRAIN: Duration = Duration::from_secs(2);

/// The error of what is not there.
const ABSENT: i32 = libc::ENOENT;

pub(crate) struct Attendant {
    pub(crate) supervisor: Supervisor,
    /// How long it may take until the first programs run.
    pub(crate) starting: Duration,
    pub(crate) order: Order,
    pub(crate) theirs: [OwnedFd; 3],
    pub(crate) outputs: Vec<(Stream, OwnedFd)>,
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) input: Arc<Mutex<Option<Input>>>,
    pub(crate) wishes: watch::Receiver<Wish>,
    pub(crate) started: Option<oneshot::Sender<Result<u32, RunError>>>,
    pub(crate) exit: watch::Sender<Option<Exit>>,
    /// What the programs need as long as they run.
    pub(crate) keeps: Option<Box<dyn Any + Send + Sync>>,
}

/// How the conversation with a supervisor ended.
#[derive(Debug, PartialEq)]
enum Outcome {
    Ended(Ending),
    /// It is gone without a word.
    Lost,
    /// It does not do what it is told: somebody stopped it, or it waits for something that does not come.
    Stuck,
}

impl Attendant {
    pub(crate) async fn attend(mut self) {
        let started = self.started.take();
        match self.engage().await {
            Ok((child, talk)) => self.stay(child, talk, started).await,
            Err(error) => {
                let error = RunError::Supervisor(format!("it cannot be started: {error}"));
                tell(started, Err(error));
            }
        }
    }

    /// Starts the supervisor, with its end of the socket as its input. The streams wait for it inside the socket.
    async fn engage(&mut self) -> io::Result<(Child, Talk)> {
        let (ours, its) = StdStream::pair()?;
        send_streams(&ours, &self.theirs)?;
        ours.set_nonblocking(true)?;
        let control = UnixStream::from_std(ours)?;
        let order = line(&self.order)?;
        let mut command = Command::new(&self.supervisor.program);
        command.args(&self.supervisor.args).env_clear();
        command.stdin(OwnedFd::from(its)).stdout(Stdio::null()).stderr(Stdio::null());
        let start = tidegate_runtime::spawn_blocking("start supervisor", move || command.spawn());
        let child = start.join().await.map_err(io::Error::other)??;
        let supervisor = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let patience = PATIENCE + self.order.hold.vessel().map_or(Duration::ZERO, |_| vessel::LONGEST);
        let (heard, wishes) = (Vec::new(), self.wishes.clone());
        Ok((child, Talk { control, supervisor, order, patience, heard, wishes }))
    }

    async fn stay(
        self,
        child: Child,
        mut talk: Talk,
        mut started: Option<oneshot::Sender<Result<u32, RunError>>>,
    ) {
        // Only the programs may hold these, or their end would never be seen.
        drop(self.theirs);
        let pid = child.id();
        let output = hand_over(self.outputs, &*self.sink);
        tokio::pin!(output);
        let mut drained = false;
        let outcome = {
            let talking = talk.until_the_end(self.starting, &*self.sink, || tell(started.take(), Ok(pid)));
            tokio::pin!(talking);
            loop {
                tokio::select! {
                    outcome = &mut talking => break outcome,
                    () = &mut output, if !drained => drained = true,
                }
            }
        };
        let unwanted = talk.is_unwanted();
        let vessel = self.order.hold.into_vessel();
        let exit = bury(child, outcome, unwanted, vessel).await;
        drop(self.keeps);
        if !drained && timeout(DRAIN, output).await.is_err() {
            tracing::warn!(pid, "a program outlived its supervisor and holds its output");
        }
        if let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
        match exit {
            Exit::Failed(error) if started.is_some() => tell(started, Err(error)),
            exit => {
                tell(started, Ok(pid));
                self.exit.send_replace(Some(exit));
            }
        }
    }
}

/// A file that is not there inside was withheld only if it is there outside.
fn is_refusal(refusal: &Refusal) -> bool {
    match &refusal.what {
        Refused::Path { path, write: false } if refusal.error == ABSENT => {
            std::fs::symlink_metadata(path).is_ok()
        }
        // One that is to be made lacks its folder.
        Refused::Path { path, write: true } if refusal.error == ABSENT => {
            let folder = std::path::Path::new(path).parent();
            folder.is_some_and(|folder| std::fs::symlink_metadata(folder).is_ok())
        }
        Refused::Address(address) if refusal.error == ABSENT => {
            address.strip_prefix("unix:").is_some_and(|path| std::fs::symlink_metadata(path).is_ok())
        }
        _ => true,
    }
}

/// Whoever waited for the start may be gone by now; then nobody holds the wish either.
fn tell(started: Option<oneshot::Sender<Result<u32, RunError>>>, news: Result<u32, RunError>) {
    if let Some(started) = started {
        let _ = started.send(news);
    }
}

pub(crate) fn send_streams(to: &StdStream, streams: &[OwnedFd; 3]) -> io::Result<()> {
    let streams = streams.each_ref().map(|stream| stream.as_fd());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    message.push(SendAncillaryMessage::ScmRights(&streams));
    rustix::net::sendmsg(to, &[IoSlice::new(b"s")], &mut message, SendFlags::empty())?;
    Ok(())
}

async fn hand_over(outputs: Vec<(Stream, OwnedFd)>, sink: &dyn Sink) {
    let mut outputs = outputs.into_iter();
    let next = |output: Option<(Stream, OwnedFd)>| async move {
        let Some((stream, from)) = output else { return };
        if let Err(error) = crate::output::hand_over(from, stream, sink).await {
            tracing::warn!(%error, ?stream, "the output of a program cannot be read");
        }
    };
    tokio::join!(next(outputs.next()), next(outputs.next()));
}

/// Makes sure that nothing is left, and that the supervisor leaves no zombie.
async fn bury(mut child: Child, outcome: Outcome, unwanted: bool, vessel: Option<Vessel>) -> Exit {
    let burial = tidegate_runtime::spawn_blocking("bury supervisor", move || {
        // Its process id cannot be anybody else's before it is waited for.
        let gone = matches!(outcome, Outcome::Ended(_)) || vessel.is_none_or(|vessel| vessel.remove());
        let left = usize::from(!gone)
            + match outcome {
                Outcome::Ended(_) => 0,
                Outcome::Lost => sweep::end_session(child.id()),
                Outcome::Stuck => sweep::end_tree(child.id()) + sweep::end_session(child.id()),
            };
        let buried = child.kill().and_then(|()| child.wait());
        (outcome, left, buried)
    });
    match burial.join().await {
        Ok((Outcome::Ended(ending), _, Ok(_))) => ending.into(),
        Ok((_, 0, Ok(_))) if unwanted => Exit::Killed,
        Ok((Outcome::Stuck, 0, Ok(_))) => failed("it does not answer".to_owned()),
        Ok((_, 0, Ok(status))) => failed(format!("it ended before its plan ({status})")),
        Ok((_, left, Ok(_))) => failed(format!("{left} processes could not be ended")),
        Ok((_, _, Err(error))) => failed(error.to_string()),
        Err(error) => failed(error.to_string()),
    }
}

fn failed(cause: String) -> Exit {
    Exit::Failed(RunError::Supervisor(cause))
}

/// The conversation with one supervisor.
struct Talk {
    control: UnixStream,
    /// Nobody else can have its id as long as it is not waited for.
    supervisor: Option<Pid>,
    order: Vec<u8>,
    /// How long it may take to do what it is told.
    patience: Duration,
    /// What was read and is not a whole line yet.
    heard: Vec<u8>,
    wishes: watch::Receiver<Wish>,
}

impl Talk {
    fn is_unwanted(&self) -> bool {
        *self.wishes.borrow() == Wish::Kill || self.wishes.has_changed().is_err()
    }

    async fn until_the_end(
        &mut self,
        starting: Duration,
        sink: &dyn Sink,
        mut on_started: impl FnMut(),
    ) -> Outcome {
        let order = std::mem::take(&mut self.order);
        match timeout(PATIENCE, self.say(&order)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Outcome::Lost,
            Err(_) => return Outcome::Stuck,
        }
        let mut wishes = self.wishes.clone();
        let mut asking = self.wishes.clone();
        let (mut told, mut asked, mut started) = (false, false, false);
        let mut deadline = Some(Instant::now() + starting);
        loop {
            let overdue = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                report = self.hear() => match report {
                    Some(Report::Started) => {
                        on_started();
                        started = true;
                        deadline = deadline.filter(|_| told);
                    }
                    Some(Report::Refused(refusal)) => {
                        if is_refusal(&refusal) {
                            sink.refused(&refusal);
                        }
                    }
                    Some(Report::Ended(ending)) => return Outcome::Ended(ending),
                    None => return Outcome::Lost,
                },
                Ok(_) = asking.wait_for(|wish| *wish == Wish::End), if started && !asked => {
                    // One that is stopped is woken when it is to be killed.
                    let _ = self.control.try_write(&[ASK]);
                    asked = true;
                }
                wish = wishes.wait_for(|wish| *wish == Wish::Kill), if !told => {
                    // Somebody may have stopped it. If it cannot be told any more, it is about to be found lost.
                    let _ = self.supervisor.map(|pid| kill_process(pid, Signal::CONT));
                    let _ = match wish {
                        Ok(_) => self.control.try_write(&[KILL]).map(drop),
                        Err(_) => rustix::net::shutdown(&self.control, Shutdown::Write).map_err(Into::into),
                    };
                    told = true;
                    deadline = Some(Instant::now() + self.patience);
                }
                () = overdue => return Outcome::Stuck,
            }
        }
    }

    async fn say(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.control.writable().await?;
            match self.control.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next report, or nothing if there will be none. It may be dropped at any time and asked again.
    async fn hear(&mut self) -> Option<Report> {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.heard.drain(..=end).collect();
                return serde_json::from_slice(&line).ok();
            }
            self.control.readable().await.ok()?;
            let mut chunk = [0; 1024];
            match self.control.try_read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.heard.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
        }
    }
}
