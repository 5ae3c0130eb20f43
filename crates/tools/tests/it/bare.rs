//! A runner for tests: starts the programs of a plan as plain children, without a supervisor.

use std::io::{Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process_group};
use tidegate_policy::exec::{Join, Launch, Plan};
use tidegate_policy::{Exit, PermittedPlan, RunError, Runner, Running, Sink, Start, Stream};
use tokio::sync::watch;

/// Runs plans whose steps have one program each.
pub(crate) struct Bare;

struct Bared {
    state: Arc<State>,
    ended: watch::Receiver<Option<Exit>>,
    pid: u32,
}

#[derive(Default)]
struct State {
    group: Mutex<Option<Pid>>,
    input: Mutex<Option<ChildStdin>>,
    killed: AtomicBool,
}

#[async_trait]
impl Runner for Bare {
    fn confines(&self) -> bool {
        false
    }

    async fn start(
        &self,
        plan: PermittedPlan<'_>,
        start: Start,
        sink: Arc<dyn Sink>,
    ) -> Result<Box<dyn Running>, RunError> {
        assert_eq!(start.pty, None, "this runner has no terminals");
        let plan = plan.plan().clone();
        let state = Arc::new(State::default());
        let (end, ended) = watch::channel(None);
        let first = begin(&plan, &plan.steps()[0].pipeline[0], start, &state)?;
        let pid = first.id();
        let run = {
            let state = state.clone();
            move || end.send_replace(Some(steps(&plan, first, start, &state, &sink)))
        };
        let thread = tidegate_runtime::spawn_thread("bare runner", move || drop(run()));
        thread.map_err(|error| RunError::Supervisor(error.to_string()))?;
        Ok(Box::new(Bared { state, ended, pid }))
    }
}

fn begin(plan: &Plan, launch: &Launch, start: Start, state: &State) -> Result<Child, RunError> {
    let mut command = Command::new(&launch.program.path);
    command.arg0(&launch.argv[0]).args(&launch.argv[1..]).env_clear().envs(plan.env());
    command.current_dir(plan.cwd()).process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if start.input { Stdio::piped() } else { Stdio::null() });
    let mut child = command
        .spawn()
        .map_err(|error| RunError::Start { path: launch.program.path.clone(), cause: error.to_string() })?;
    *state.group.lock().unwrap() = Some(Pid::from_child(&child));
    *state.input.lock().unwrap() = child.stdin.take();
    Ok(child)
}

fn steps(plan: &Plan, first: Child, start: Start, state: &Arc<State>, sink: &Arc<dyn Sink>) -> Exit {
    let mut exit = finish(first, state, sink);
    for step in &plan.steps()[1..] {
        let goes = match step.join {
            Join::Then => true,
            Join::And => exit == Exit::Code(0),
            Join::Or => exit != Exit::Code(0),
        };
        if state.killed.load(Ordering::Acquire) {
            return Exit::Killed;
        }
        assert_eq!(step.pipeline.len(), 1, "this runner has no pipes");
        if goes {
            exit = match begin(plan, &step.pipeline[0], start, state) {
                Ok(child) => finish(child, state, sink),
                Err(error) => Exit::Failed(error),
            };
        }
    }
    exit
}

fn finish(mut child: Child, state: &Arc<State>, sink: &Arc<dyn Sink>) -> Exit {
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let other = sink.clone();
    let reader = tidegate_runtime::spawn_thread("bare reader", move || copy(stderr, Stream::Stderr, &*other));
    copy(stdout, Stream::Stdout, &**sink);
    let _ = reader.unwrap().join();
    let status = child.wait().unwrap();
    *state.group.lock().unwrap() = None;
    if state.killed.load(Ordering::Acquire) {
        return Exit::Killed;
    }
    status.code().map_or_else(|| Exit::Signal(status.signal().unwrap_or(0)), Exit::Code)
}

fn copy(mut from: impl Read, stream: Stream, sink: &dyn Sink) {
    let mut buffer = vec![0; 65536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        sink.write(stream, &buffer[..count]);
    }
}

#[async_trait]
impl Running for Bared {
    fn pid(&self) -> u32 {
        self.pid
    }

    async fn wait(&self) -> Exit {
        self.ended.clone().wait_for(Option::is_some).await.unwrap().clone().unwrap()
    }

    async fn write(&self, bytes: &[u8]) -> Result<(), RunError> {
        let mut input = self.state.input.lock().unwrap();
        let written = input.as_mut().map(|input| input.write_all(bytes).and_then(|()| input.flush()));
        written.and_then(Result::ok).ok_or(RunError::Ended)
    }

    async fn close_input(&self) -> Result<(), RunError> {
        *self.state.input.lock().unwrap() = None;
        Ok(())
    }

    fn kill(&self) {
        self.state.killed.store(true, Ordering::Release);
        if let Some(group) = *self.state.group.lock().unwrap() {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Bared {
    fn drop(&mut self) {
        self.kill();
    }
}
