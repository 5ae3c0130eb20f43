//! The supervisor: a process of its own for each plan, which starts its programs and answers for them.
//!
//! It is a session leader, so that nothing here shares a process group or a terminal with the gateway, and a subreaper:
//! a process whose parent dies becomes its child, however often it forked before. So as long as anything of the plan
//! lives, the supervisor has a child; when it has none, everything is gone. It has one thread and no runtime.

#[cfg(target_os = "linux")]
mod bridge;
mod children;
mod control;
mod folder;
#[cfg(target_os = "linux")]
mod groups;
#[cfg(target_os = "linux")]
mod inside;
mod launch;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod modes;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod restriction;
mod signals;
#[cfg(target_os = "linux")]
mod trace;
#[cfg(target_os = "linux")]
mod watchdog;

use std::io;
use std::process::ExitCode;
#[cfg(target_os = "linux")]
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::Mode;
use rustix::process::Pid;
use tidegate_policy::exec::{Join, Step};

use crate::hold::{Elsewhere, Hold};
#[cfg(target_os = "linux")]
use crate::hold::{Inside, Landlock};
use crate::order::{Ending, Failure, Order, Report};
use crate::vessel::Vessel;
use children::Children;
use control::{Control, Demand, Streams};
use launch::Common;
#[cfg(target_os = "linux")]
use modes::Modes;
#[cfg(target_os = "linux")]
use restriction::{OwnLimits, Restriction};
#[cfg(target_os = "linux")]
use trace::Tracer;
#[cfg(target_os = "linux")]
use watchdog::Watchdog;

pub(crate) use launch::identify;

/// How a process is started to be the bridge.
pub(crate) const BRIDGE: &str = "bridge";

/// What a bridge that opened its own port says when it listens.
pub(crate) const READY: &str = "ready";

/// How long programs have to clean up when somebody wants them gone.
const GRACE: Duration = Duration::from_millis(200);

const STOPPED: &str = "the machine stopped before its program ended; its memory may have been too small";

/// How long those who tended a vessel that is gone have to end by themselves: they tidy up what it left on the disk.
const TIDYING: Duration = Duration::from_secs(3);

/// What the executable does when it is started as a supervisor. It has to be called before anything else happens: no
/// other thread may run, and nothing may have been read from the standard input.
pub fn supervise() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some((socket, port)) = bridge_to() {
        return bridge::carry(socket.as_ref(), port);
    }
    match begin() {
        Ok((control, streams, order)) => {
            Supervision::new(control).run(order, streams);
            ExitCode::SUCCESS
        }
        // There is nobody to tell, or nobody who would understand.
        Err(_) => ExitCode::FAILURE,
    }
}

/// Where the bridge leads, if this process was started to be it, and the port it has to open, if it gets none.
#[cfg(target_os = "linux")]
fn bridge_to() -> Option<(std::ffi::OsString, Option<u16>)> {
    let mut words = std::env::args_os().skip_while(|word| word != BRIDGE).skip(1);
    let socket = words.next()?;
    Some((socket, words.next().and_then(|port| port.to_str()?.parse().ok())))
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
    let Order { steps, cwd, env, terminal, hold: _, watch: _ } = order;
    let Streams { stdin, stdout, stderr } = streams;
    folder::enter(&cwd).map_err(|error| Failure::Folder { path: cwd, cause: error.to_string() })?;
    if terminal {
        rustix::process::ioctl_tiocsctty(&stdout)
            .map_err(|error| Failure::Supervisor(format!("there is no terminal: {error}")))?;
    }
    let common = Common {
        stdin,
        stdout,
        stderr,
        env,
        terminal,
        #[cfg(target_os = "linux")]
        restriction: Arc::default(),
    };
    Ok((steps, common))
}

struct Supervision {
    control: Control,
    children: Children,
    /// What holds the programs, if it is none of the children.
    vessel: Option<Vessel>,
    #[cfg(target_os = "linux")]
    watchdog: Watchdog,
}

/// Why a plan is not awaited any longer.
enum Stop {
    /// The gateway wants the end, or is gone.
    Demand(Demand),
    /// It used up too much.
    #[cfg(target_os = "linux")]
    Limit(Ending),
}

impl Supervision {
    fn new(control: Control) -> Self {
        Self {
            control,
            children: Children::default(),
            vessel: None,
            #[cfg(target_os = "linux")]
            watchdog: Watchdog::default(),
        }
    }

    fn run(mut self, mut order: Order, streams: Streams) {
        let mut ending = match std::mem::take(&mut order.hold) {
            Hold::Nothing => self.run_here(order, streams),
            Hold::Elsewhere(hold) => self.run_elsewhere(*hold, order, streams),
            #[cfg(target_os = "linux")]
            Hold::Namespaces(hold) => {
                self.watchdog = Watchdog::new(hold.limits);
                self.run_in_namespaces(*hold, order, streams)
            }
            #[cfg(target_os = "linux")]
            Hold::Landlock(hold) => {
                self.watchdog = Watchdog::new(hold.limits);
                self.run_restricted(&hold, order, streams)
            }
            #[cfg(target_os = "linux")]
            Hold::Inside(inside) => self.run_inside(&inside, order, streams),
        };
        #[cfg(target_os = "linux")]
        {
            ending = self.watchdog.told(ending);
        }
        // From here on nobody holds the streams but what is about to die.
        let left = self.empty_vessel() + self.children.end();
        if left > 0 {
            ending = Ending::Failed(Failure::Supervisor(format!("{left} processes could not be ended")));
        }
        // Whoever hears that it is over finds nothing left of it.
        #[cfg(target_os = "linux")]
        drop(std::mem::take(&mut self.watchdog));
        self.control.report(&Report::Ended(ending));
    }

    fn run_here(&mut self, order: Order, streams: Streams) -> Ending {
        match prepare(order, streams) {
            Ok((steps, common)) => self.play(&steps, &common),
            Err(failure) => Ending::Failed(failure),
        }
    }

    /// In the namespaces, where everything that is started is held already.
    #[cfg(target_os = "linux")]
    fn run_inside(&mut self, inside: &Inside, order: Order, streams: Streams) -> Ending {
        let watch = order.watch;
        let prepared = inside::settle(inside, watch).and_then(|()| prepare(order, streams));
        let prepared = prepared.and_then(|(steps, common)| {
            let filter = watch.then(|| inside.filter.program());
            let restriction = Restriction { filter, traced: watch, ..Restriction::default() };
            self.look_at_refusals(watch)?;
            Ok((steps, Common { restriction: Arc::new(restriction), ..common }))
        });
        match prepared {
            Ok((steps, common)) => self.play(&steps, &common),
            Err(failure) => Ending::Failed(failure),
        }
    }

    #[cfg(target_os = "linux")]
    fn look_at_refusals(&mut self, watch: bool) -> Result<(), Failure> {
        if watch {
            let tracer = Tracer::new()
                .map_err(|error| Failure::Supervisor(format!("programs cannot be traced: {error}")))?;
            self.children.tracer = Some(tracer);
        }
        Ok(())
    }

    /// Passes on what programs were refused.
    #[cfg(target_os = "linux")]
    fn tell_refusals(&mut self) {
        let Some(tracer) = &mut self.children.tracer else { return };
        for refusal in tracer.take() {
            self.control.report(&Report::Refused(refusal));
        }
    }

    /// What is started here only leads to the programs.
    fn run_elsewhere(&mut self, hold: Elsewhere, order: Order, streams: Streams) -> Ending {
        #[cfg(target_os = "linux")]
        {
            self.watchdog = Watchdog::of_disks(hold.disk);
        }
        self.vessel = hold.vessel;
        let ending = self.run_here(order, streams);
        match (ending, hold.answer) {
            (Ending::Code(0), Some(file)) => {
                let answer = std::fs::read_to_string(file).unwrap_or_default();
                let code = answer.lines().last().and_then(|code| code.trim().parse().ok());
                code.map_or_else(|| Ending::Failed(Failure::Supervisor(STOPPED.to_owned())), Ending::Code)
            }
            (ending, _) => ending,
        }
    }

    /// Every program gives up, before it begins, what it is not to have.
    #[cfg(target_os = "linux")]
    fn run_restricted(&mut self, hold: &Landlock, order: Order, streams: Streams) -> Ending {
        let watch = order.watch;
        let prepared = prepare(order, streams).and_then(|(steps, common)| {
            self.look_at_refusals(watch)?;
            let restriction = self.restriction(hold, watch);
            let restriction = restriction
                .map_err(|error| Failure::Supervisor(format!("Landlock cannot hold programs: {error}")))?;
            Ok((steps, Common { restriction: Arc::new(restriction), ..common }))
        });
        let ending = match prepared {
            Ok((steps, common)) => self.play(&steps, &common),
            Err(failure) => return Ending::Failed(failure),
        };
        self.watchdog.looks().unwrap_or(ending)
    }

    #[cfg(target_os = "linux")]
    fn restriction(&mut self, hold: &Landlock, watch: bool) -> io::Result<Restriction> {
        let (ours, theirs) = std::os::unix::net::UnixDatagram::pair()?;
        self.children.modes = Some(Modes::new(ours.into(), &hold.writable));
        Ok(Restriction {
            groups: self.watchdog.groups.doors()?,
            limits: Some(OwnLimits::of(hold.limits, None)),
            no_capabilities: true,
            rules: Some(restriction::rules(hold)?),
            filter: Some(hold.filter.program()),
            door: Some(theirs.into()),
            traced: watch,
        })
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
                Err(Stop::Demand(Demand::Kill)) => {
                    self.ask_to_end();
                    return Ending::Killed;
                }
                Err(Stop::Demand(Demand::Gone | Demand::Ask)) => return Ending::Killed,
                #[cfg(target_os = "linux")]
                Err(Stop::Limit(ending)) => return ending,
            };
        }
        last
    }

    /// Waits for all programs of a pipeline; the last one speaks for it.
    fn watch(&mut self, pipeline: &[Pid]) -> Result<Ending, Stop> {
        self.children.follow(pipeline);
        loop {
            let ending = self.children.ending_of(pipeline);
            #[cfg(target_os = "linux")]
            self.tell_refusals();
            if let Some(ending) = ending {
                return Ok(ending);
            }
            #[cfg(target_os = "linux")]
            let pause = self.watchdog.pause(children::LOOK);
            #[cfg(not(target_os = "linux"))]
            let pause = children::LOOK;
            self.children.wait(&self.control, pause);
            match self.control.demand() {
                Some(Demand::Ask) => self.children.ask_to_end(),
                Some(demand) => return Err(Stop::Demand(demand)),
                None => {}
            }
            #[cfg(target_os = "linux")]
            if let Some(ending) = self.watchdog.barks() {
                return Err(Stop::Limit(ending));
            }
        }
    }

    /// Gives the programs a moment to end by themselves, unless the gateway goes away meanwhile.
    fn ask_to_end(&mut self) {
        match &self.vessel {
            Some(vessel) => vessel.ask_to_end(),
            None => self.children.ask_to_end(),
        }
        let deadline = Instant::now() + GRACE;
        while self.children.reap() && Instant::now() < deadline {
            self.children.wait(&self.control, Duration::from_millis(5));
            if self.control.demand() == Some(Demand::Gone) {
                return;
            }
        }
    }

    /// Ends what is out of the children's reach. Returns how much of it is left.
    fn empty_vessel(&mut self) -> usize {
        let Some(vessel) = &self.vessel else { return 0 };
        let deadline = Instant::now() + TIDYING;
        let mut gone = vessel.remove();
        let mut asked = Instant::now();
        while self.children.reap() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
            // Somebody may have been about to make it.
            if asked.elapsed() > TIDYING / 8 {
                gone = vessel.remove();
                asked = Instant::now();
            }
        }
        // They do not come to it any more.
        if self.children.reap() {
            self.children.end();
            gone = vessel.remove();
        }
        usize::from(!gone)
    }
}
