//! What holds programs that are not below their supervisor: a container of a daemon. Killing whoever asked for it does
//! not end it, so that it is removed by its name.

use std::collections::BTreeMap;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// For the engine to pass on a signal.
const ASKING: Duration = Duration::from_secs(5);

/// For the engine to remove what it made. It may have to wait for itself: it takes up one request for a name at a time.
const REMOVING: Duration = Duration::from_secs(20);

/// How long all of it can take, whoever waits for it.
pub(crate) const LONGEST: Duration = Duration::from_secs(45);

/// How to reach it from the outside. Both work at any time, also before it exists and after it is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vessel {
    /// The program that knows it: an absolute path.
    pub(crate) program: String,
    pub(crate) env: BTreeMap<String, String>,
    /// Asks everything in it to end.
    pub(crate) ask: Vec<String>,
    /// Ends everything in it, and it.
    pub(crate) remove: Vec<String>,
}

impl Vessel {
    /// Gives what is in it a chance to clean up. That there may be nothing any more is no failure.
    pub(crate) fn ask_to_end(&self) {
        let _ = self.call(&self.ask, ASKING);
    }

    /// Says whether it is gone for certain.
    pub(crate) fn remove(&self) -> bool {
        self.call(&self.remove, REMOVING).is_ok_and(|status| status.success())
    }

    fn call(&self, args: &[String], limit: Duration) -> io::Result<ExitStatus> {
        let mut command = Command::new(&self.program);
        command.args(args).env_clear().envs(&self.env).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        wait(command.spawn()?, limit)
    }
}

fn wait(mut child: Child, limit: Duration) -> io::Result<ExitStatus> {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            child.kill()?;
            return child.wait();
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
