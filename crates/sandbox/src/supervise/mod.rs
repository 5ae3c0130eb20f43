//! The supervisor: a process of its own for each plan, which starts its programs and answers for them.
//!
//! It is a session leader, so that nothing here shares a process group or a terminal with the gateway, and a subreaper:
//! a process whose parent dies becomes its child, however often it forked before. So as long as anything of the plan
//! lives, the supervisor has a child; when it has none, everything is gone. It has one thread and no runtime.

mod children;
mod control;
mod folder;
mod launch;
mod signals;

use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::process::Pid;
use tidegate_policy::exec::{Join, Step};

use crate::order::{Ending, Failure, Order, Report};
use children::Children;
use control::{Control, Demand, Streams};
use launch::Common;

#[cfg(all(test, target_os = "linux"))]
pub(crate) use launch::identify;

/// How long programs have to clean up when somebody wants them gone.
const GRACE: Duration = Duration::from_millis(200);

/// What the executable does when it is started as a supervisor. It has to be called before anything else happens: no
/// other thread may run, and nothing may have been read from the standard input.
pub fn supervise() -> ExitCode {
    match begin() {
        Ok((control, streams, order)) => {
            Supervision { control, children: Children::default() }.run(order, streams);
            ExitCode::SUCCESS
        }
        // There is nobody to tell, or nobody who would understand.
        Err(_) => ExitCode::FAILURE,
    }
}

fn begin() -> io::Result<(Control, Streams, Order)> {
    let mut control = Control::take()?;
    control::keep_to_ourselves()?;
    signals::hold_back()?;
    // It fails where the process leads a group already, which is as good.
    let _ = rustix::process::setsid();
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior};
        set_child_subreaper(Some(getpid()))?;
        // Nobody may trace it or take the socket out of it. What it starts is as open as ever.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    let (streams, order) = control.receive()?;
    Ok((control, streams, order))
}

/// Goes where the programs are to run.
fn prepare(order: Order, streams: Streams) -> Result<(Vec<Step>, Common), Failure> {
    let Order { steps, cwd, env, terminal } = order;
    let Streams { stdin, stdout, stderr } = streams;
    folder::enter(&cwd).map_err(|error| Failure::Folder { path: cwd, cause: error.to_string() })?;
    if terminal {
        rustix::process::ioctl_tiocsctty(&stdout)
            .map_err(|error| Failure::Supervisor(format!("there is no terminal: {error}")))?;
    }
    Ok((steps, Common { stdin, stdout, stderr, env, terminal }))
}

struct Supervision {
    control: Control,
    children: Children,
}

impl Supervision {
    fn run(mut self, order: Order, streams: Streams) {
        let mut ending = match prepare(order, streams) {
            Ok((steps, common)) => self.play(&steps, &common),
            Err(failure) => Ending::Failed(failure),
        };
        // From here on nobody holds the streams but what is about to die.
        let left = self.children.end();
        if left > 0 {
            ending = Ending::Failed(Failure::Supervisor(format!("{left} processes could not be ended")));
        }
        self.control.report(&Report::Ended(ending));
    }

    /// Runs the steps as a shell would: each depends on how the last that ran ended.
    fn play(&mut self, steps: &[Step], common: &Common) -> Ending {
        let mut last = Ending::Code(0);
        let mut started = false;
        for step in steps {
            let is_due = match step.join {
                Join::Then => true,
                Join::And => last.is_success(),
                Join::Or => !last.is_success(),
            };
            if !is_due {
                continue;
            }
            let pipeline = match launch::start(&step.pipeline, common) {
                Ok(pipeline) => pipeline,
                Err(failure) => return Ending::Failed(failure),
            };
            if !std::mem::replace(&mut started, true) {
                self.control.report(&Report::Started);
            }
            last = match self.watch(&pipeline) {
                Ok(ending) => ending,
                Err(Demand::Kill) => {
                    self.ask_to_end();
                    return Ending::Killed;
                }
                Err(Demand::Gone | Demand::Ask) => return Ending::Killed,
            };
        }
        last
    }

    /// Waits for all programs of a pipeline; the last one speaks for it.
    fn watch(&mut self, pipeline: &[Pid]) -> Result<Ending, Demand> {
        self.children.follow(pipeline);
        loop {
            if let Some(ending) = self.children.ending_of(pipeline) {
                return Ok(ending);
            }
            self.children.wait(&self.control, children::LOOK);
            match self.control.demand() {
                Some(Demand::Ask) => self.children.ask_to_end(),
                Some(demand) => return Err(demand),
                None => {}
            }
        }
    }

    /// Gives the programs a moment to end by themselves, unless the gateway goes away meanwhile.
    fn ask_to_end(&mut self) {
        let deadline = Instant::now() + GRACE;
        self.children.ask_to_end();
        while self.children.reap() && Instant::now() < deadline {
            self.children.wait(&self.control, Duration::from_millis(5));
            if self.control.demand() == Some(Demand::Gone) {
                return;
            }
        }
    }
}
