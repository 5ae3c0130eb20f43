//! Starting the programs of one pipeline: exactly these files, exactly these arguments, and nothing handed down.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
#[cfg(target_os = "linux")]
use std::sync::Arc;

use rustix::process::Pid;
use tidegate_policy::exec::{FileIdentity, Launch};

#[cfg(target_os = "linux")]
use super::restriction::Restriction;
use super::signals;
use crate::order::Failure;

/// What the programs of a plan have in common.
pub(super) struct Common {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    pub(super) env: BTreeMap<String, String>,
    pub(super) terminal: bool,
    /// What each program does to itself before it begins.
    #[cfg(target_os = "linux")]
    pub(super) restriction: Arc<Restriction>,
}

/// Starts a pipeline, in a process group of its own. What was started before a failure keeps running: the caller ends
/// everything anyway.
pub(super) fn start(pipeline: &[Launch], common: &Common) -> Result<Vec<Pid>, Failure> {
    let mut started = Vec::new();
    let mut input = copy(&common.stdin)?;
    for (index, launch) in pipeline.iter().enumerate() {
        let (output, next) = if index + 1 == pipeline.len() {
            (copy(&common.stdout)?, None)
        } else {
            let (reader, writer) = io::pipe().map_err(|error| no_stream(&error))?;
            (OwnedFd::from(writer), Some(OwnedFd::from(reader)))
        };
        let mut command = command(launch, common);
        command.stdin(input).stdout(output).stderr(copy(&common.stderr)?);
        started.push(run(command, launch, started.first().copied(), common)?);
        match next {
            Some(next) => input = next,
            None => break,
        }
    }
    Ok(started)
}

fn command(launch: &Launch, common: &Common) -> Command {
    let mut command = Command::new(&launch.program.path);
    if let Some((name, arguments)) = launch.argv.split_first() {
        command.arg0(name).args(arguments);
    }
    command.env_clear().envs(&common.env);
    command
}

fn run(mut command: Command, launch: &Launch, group: Option<Pid>, common: &Common) -> Result<Pid, Failure> {
    let path = &launch.program.path;
    let cannot = |error: &io::Error| Failure::Start { path: path.clone(), cause: error.to_string() };
    let terminal = if common.terminal && group.is_none() { Some(copy(&common.stdout)?) } else { None };
    command.process_group(group.map_or(0, |leader| leader.as_raw_nonzero().get()));
    #[cfg(target_os = "linux")]
    settle_before(&mut command, terminal, &common.restriction);
    #[cfg(not(target_os = "linux"))]
    settle_before(&mut command, terminal);
    if identify(path).map_err(|error| cannot(&error))? != launch.program.identity {
        return Err(Failure::Changed { path: path.clone() });
    }
    let child = command.spawn().map_err(|error| cannot(&error))?;
    pid_of(&child)
}

pub(super) fn pid_of(child: &Child) -> Result<Pid, Failure> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| Failure::Supervisor("a process has no id".to_owned()))
}

/// Has a program settle in its process before it begins.
#[cfg(target_os = "linux")]
pub(super) fn settle_before(
    command: &mut Command,
    terminal: Option<OwnedFd>,
    restriction: &Arc<Restriction>,
) {
    let supervisor = rustix::process::getpid();
    let restriction = Arc::clone(restriction);
    #[expect(unsafe_code, reason = "the only way to act between fork and exec")]
    // SAFETY: both make system calls only; they neither allocate nor take a lock.
    unsafe {
        command.pre_exec(move || {
            settle(supervisor, terminal.as_ref())?;
            restriction.apply()
        });
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn settle_before(command: &mut Command, terminal: Option<OwnedFd>) {
    let supervisor = rustix::process::getpid();
    #[expect(unsafe_code, reason = "the only way to act between fork and exec")]
    // SAFETY: `settle` makes system calls only; it neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(move || settle(supervisor, terminal.as_ref()));
    }
}

/// The last that happens before a program begins, in its process.
fn settle(supervisor: Pid, terminal: Option<&OwnedFd>) -> io::Result<()> {
    if let Some(terminal) = terminal {
        // Signals are still held back, else asking for the foreground from the background would stop it.
        rustix::termios::tcsetpgrp(terminal, rustix::process::getpid())?;
    }
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    if rustix::process::getppid() != Some(supervisor) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    signals::let_through()
}

/// Which file is at a path. A symbolic link is none of the files that were permitted.
pub(crate) fn identify(path: &str) -> io::Result<FileIdentity> {
    let file = fs::symlink_metadata(path)?;
    Ok(FileIdentity {
        device: file.dev(),
        inode: file.ino(),
        size: file.size(),
        modified: i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec()),
    })
}

fn copy(stream: &OwnedFd) -> Result<OwnedFd, Failure> {
    stream.try_clone().map_err(|error| no_stream(&error))
}

fn no_stream(error: &io::Error) -> Failure {
    Failure::Supervisor(format!("there is no stream for a program: {error}"))
}
