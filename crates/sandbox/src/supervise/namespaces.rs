//! The first of two supervisors: it has bubblewrap make the namespaces and the second one start in them, passes on what
//! gateway and second supervisor say to each other, and answers for the end of everything, from outside.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::control::{Demand, Streams};
use super::restriction::Restriction;
use super::{Supervision, children, folder, launch};
use crate::attend::send_streams;
use crate::hold::{Hold, Namespaces};
use crate::order::{ASK, Ending, Failure, KILL, Order, Report, line};

/// How long the second supervisor has to end everything after it was told. Then it is ended itself.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long bubblewrap has to go by itself after everything in its namespaces is gone. It takes a moment only, and then
/// nobody has to be looked for among all processes of the machine.
const GOING: Duration = Duration::from_millis(100);

/// What is told of bubblewrap's complaint.
const COMPLAINT: usize = 500;

/// The second supervisor, seen from outside.
struct Inner {
    socket: UnixStream,
    /// What bubblewrap says when it cannot do its work.
    complaints: io::PipeReader,
    heard: Vec<u8>,
}

enum Heard {
    Report(Report),
    Nothing,
    Gone,
}

impl Supervision {
    pub(super) fn run_in_namespaces(&mut self, hold: Namespaces, order: Order, streams: Streams) -> Ending {
        match self.enter(hold, order, streams) {
            Ok(inner) => self.listen(inner),
            Err(failure) => Ending::Failed(failure),
        }
    }

    fn enter(&mut self, hold: Namespaces, order: Order, streams: Streams) -> Result<Inner, Failure> {
        let Namespaces { program, args, mut inside, .. } = hold;
        let identity = folder::identity(&inside.folder)
            .map_err(|error| Failure::Folder { path: inside.folder.clone(), cause: error.to_string() })?;
        inside.identity = Some(identity);
        let order = Order { hold: Hold::Inside(Box::new(inside)), ..order };
        let cannot = |error: io::Error| Failure::Supervisor(format!("bubblewrap cannot be started: {error}"));
        let (ours, its) = UnixStream::pair().map_err(cannot)?;
        let (complaints, complaining) = io::pipe().map_err(cannot)?;
        send_streams(&ours, &[streams.stdin, streams.stdout, streams.stderr]).map_err(cannot)?;
        let mut command = Command::new(program);
        command.args(args).env_clear();
        command.stdin(OwnedFd::from(its)).stdout(Stdio::null()).stderr(complaining);
        let groups = self.watchdog.groups.doors().map_err(cannot)?;
        let restriction = Arc::new(Restriction { groups, ..Restriction::default() });
        launch::settle_before(&mut command, None, &restriction);
        let child = command.spawn().map_err(cannot)?;
        self.children.follow(&[launch::pid_of(&child)?]);
        // Its ends are closed here, so that the end of the second supervisor is seen.
        drop(command);
        let mut inner = Inner { socket: ours, complaints, heard: Vec::new() };
        inner.tell(&order).map_err(cannot)?;
        Ok(inner)
    }

    /// Passes on what is said, until everything is over.
    fn listen(&mut self, mut inner: Inner) -> Ending {
        let mut deadline: Option<Instant> = None;
        loop {
            match inner.hear() {
                Heard::Report(Report::Ended(ending)) => {
                    self.children.await_end(GOING);
                    return self.watchdog.looks().unwrap_or(ending);
                }
                Heard::Report(report) => {
                    self.control.report(&report);
                    continue;
                }
                Heard::Gone if deadline.is_some() => return Ending::Killed,
                Heard::Gone => return self.watchdog.looks().unwrap_or_else(|| inner.complaint()),
                Heard::Nothing => {}
            }
            if let Some(ending) = self.watchdog.barks() {
                return ending;
            }
            match self.control.demand() {
                Some(Demand::Gone) => return Ending::Killed,
                Some(Demand::Ask) => {
                    let _ = inner.socket.write_all(&[ASK]);
                }
                Some(Demand::Kill) if deadline.is_none() => {
                    // If it cannot be told, it is about to be found gone.
                    let _ = inner.socket.write_all(&[KILL]);
                    deadline = Some(Instant::now() + PATIENCE);
                }
                _ => {}
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ending::Killed;
            }
            let at_most = if deadline.is_some() { PATIENCE / 10 } else { children::LOOK };
            self.wait_for(&inner, self.watchdog.pause(at_most));
        }
    }

    fn wait_for(&self, inner: &Inner, at_most: Duration) {
        let at_most = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let mut events =
            [PollFd::new(&self.control, PollFlags::IN), PollFd::new(&inner.socket, PollFlags::IN)];
        // Whatever it says, the caller looks at everything again.
        let _ = poll(&mut events, Some(&at_most));
    }
}

impl Inner {
    /// Says what is to be done. Nothing else is written before the end is wanted.
    fn tell(&mut self, order: &Order) -> io::Result<()> {
        let told = self.socket.write_all(&line(order)?);
        self.socket.set_nonblocking(true)?;
        match told {
            // Bubblewrap did not get that far, and says why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            told => told,
        }
    }

    fn hear(&mut self) -> Heard {
        loop {
            if let Some(end) = self.heard.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.heard.drain(..=end).collect();
                return serde_json::from_slice(&line).map_or(Heard::Gone, Heard::Report);
            }
            let mut chunk = [0; 1024];
            match self.socket.read(&mut chunk) {
                Ok(0) => return Heard::Gone,
                Ok(count) => self.heard.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::Nothing,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Heard::Gone,
            }
        }
    }

    /// Why there is no second supervisor any more.
    fn complaint(mut self) -> Ending {
        let mut said = vec![0; COMPLAINT];
        // Whoever wrote is gone, or about to be.
        let count = self.complaints.read(&mut said).unwrap_or_default();
        let said = String::from_utf8_lossy(&said[..count]).trim().replace('\n', " ");
        let cause = if said.is_empty() {
            "the supervisor inside the sandbox is gone".to_owned()
        } else {
            format!("bubblewrap: {}", said.trim_start_matches("bwrap: "))
        };
        Ending::Failed(Failure::Supervisor(cause))
    }
}
