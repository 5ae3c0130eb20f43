//! The processes a supervisor answers for: those it started, and the orphans it inherits from them.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};

use super::control::Control;
#[cfg(target_os = "linux")]
use super::modes::Modes;
#[cfg(target_os = "linux")]
use super::trace::Tracer;
use crate::order::Ending;

/// How often orphans that ended are collected while nothing else happens.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// How often children are looked after where their end cannot be awaited together with the gateway's word.
const LOOK_CLOSELY: Duration = Duration::from_millis(10);

/// Ends and stops that are looked at in one turn. Programs that make more of them than can be looked at must not keep the
/// supervisor from hearing the gateway and from looking at the limits.
const TURN: usize = 64;

#[derive(Default)]
pub(super) struct Children {
    /// Those of the pipeline that runs, and how they ended.
    followed: HashMap<Pid, Option<Ending>>,
    /// Become readable when one of these ends; closed when it has.
    handles: HashMap<Pid, Option<OwnedFd>>,
    /// Whether the last turn left something to look at.
    is_behind: bool,
    /// Changes the modes of files for them, where they may not do it themselves.
    #[cfg(target_os = "linux")]
    pub(super) modes: Option<Modes>,
    /// Looks at what they are refused, for somebody who wants to know.
    #[cfg(target_os = "linux")]
    pub(super) tracer: Option<Tracer>,
    /// All process groups that were started, for systems that know nothing better.
    #[cfg(not(target_os = "linux"))]
    groups: Vec<Pid>,
}

impl Children {
    pub(super) fn follow(&mut self, pipeline: &[Pid]) {
        self.followed = pipeline.iter().map(|pid| (*pid, None)).collect();
        self.handles = pipeline.iter().map(|pid| (*pid, handle(*pid))).collect();
        #[cfg(not(target_os = "linux"))]
        self.groups.extend(pipeline.first());
    }

    /// How a pipeline ended, if all of it has.
    pub(super) fn ending_of(&mut self, pipeline: &[Pid]) -> Option<Ending> {
        self.reap();
        if self.followed.values().any(Option::is_none) {
            return None;
        }
        // Nothing to run is nothing that failed.
        let Some(last) = pipeline.last() else { return Some(Ending::Code(0)) };
        self.followed.get(last)?.clone()
    }

    /// Waits until something ended, the gateway said something, or some time passed.
    pub(super) fn wait(&mut self, control: &Control, at_most: Duration) {
        let mut at_most = if self.is_behind { Duration::ZERO } else { at_most };
        let mut events = vec![PollFd::new(control, PollFlags::IN)];
        for handle in self.handles.values() {
            match handle {
                Some(handle) => events.push(PollFd::new(handle, PollFlags::IN)),
                None => at_most = at_most.min(LOOK_CLOSELY),
            }
        }
        #[cfg(target_os = "linux")]
        let sources: Vec<_> = self.modes.iter().flat_map(Modes::sources).collect();
        #[cfg(target_os = "linux")]
        events.extend(sources.iter().map(|source| PollFd::new(source, PollFlags::IN)));
        #[cfg(target_os = "linux")]
        events.extend(self.tracer.as_ref().map(|tracer| PollFd::new(tracer, PollFlags::IN)));
        let at_most = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        // Whatever it says, the caller looks at everything again.
        let _ = poll(&mut events, Some(&at_most));
        #[cfg(target_os = "linux")]
        if let Some(tracer) = &self.tracer {
            tracer.heard();
        }
        #[cfg(target_os = "linux")]
        if let Some(modes) = &mut self.modes {
            modes.attend();
        }
    }

    /// Collects what has ended, as much of it as one turn allows. Says whether anything is left.
    pub(super) fn reap(&mut self) -> bool {
        self.is_behind = false;
        for _ in 0..TURN {
            match wait(WaitOptions::NOHANG) {
                #[cfg(target_os = "linux")]
                Ok(Some((pid, status))) if status.stopped() => {
                    if let Some(tracer) = &mut self.tracer {
                        tracer.look(pid, status);
                    }
                }
                Ok(Some((pid, status))) => {
                    #[cfg(target_os = "linux")]
                    if let Some(tracer) = &mut self.tracer {
                        tracer.forget(pid);
                    }
                    self.handles.remove(&pid);
                    if let Some(ending) = self.followed.get_mut(&pid) {
                        *ending = Some(ending_of(status));
                    }
                }
                Ok(None) => return true,
                Err(Errno::INTR) => {}
                Err(_no_child) => return false,
            }
        }
        self.is_behind = true;
        true
    }
}

#[cfg(target_os = "linux")]
impl Children {
    /// Waits until those that are followed have ended by themselves, and collects them.
    pub(super) fn await_end(&mut self, at_most: Duration) {
        let deadline = Instant::now() + at_most;
        while self.reap() && Instant::now() < deadline {
            let mut events: Vec<_> =
                self.handles.values().flatten().map(|handle| PollFd::new(handle, PollFlags::IN)).collect();
            let left = deadline.saturating_duration_since(Instant::now());
            let left = if events.is_empty() { left.min(LOOK_CLOSELY) } else { left };
            let left = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
            // Whatever it says, everything is looked at again.
            let _ = poll(&mut events, Some(&left));
        }
    }

    /// Ends everything. Returns how many processes are left.
    pub(super) fn end(&mut self) -> usize {
        if self.reap() { crate::sweep::end_children(|| self.reap()) } else { 0 }
    }

    /// Asks everything to end; who is stopped is woken up to hear it.
    #[expect(clippy::unused_self, reason = "elsewhere it has to know the groups")]
    pub(super) fn ask_to_end(&self) {
        crate::sweep::tell_children(&[Signal::TERM, Signal::CONT]);
    }
}

#[cfg(not(target_os = "linux"))]
impl Children {
    /// Ends the groups. What left them is not found.
    pub(super) fn end(&mut self) -> usize {
        self.tell(Signal::KILL);
        self.reap();
        0
    }

    pub(super) fn ask_to_end(&self) {
        self.tell(Signal::TERM);
        self.tell(Signal::CONT);
    }

    fn tell(&self, signal: Signal) {
        for group in &self.groups {
            let _ = rustix::process::kill_process_group(*group, signal);
        }
    }
}

/// Something that can be waited for together with the socket. Kernels before 5.3 have none.
#[cfg(target_os = "linux")]
fn handle(pid: Pid) -> Option<OwnedFd> {
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn handle(_pid: Pid) -> Option<OwnedFd> {
    None
}

fn ending_of(status: WaitStatus) -> Ending {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ending::Code(code),
        (None, Some(signal)) => Ending::Signal(signal),
        (None, None) => Ending::Code(-1),
    }
}
