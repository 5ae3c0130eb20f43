//! The program on a pseudo-terminal of the test's own: what is typed, and everything that appeared.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::home::{Home, PROGRAM};

/// However loaded the machine is.
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Pty {
    child: Child,
    master: File,
    /// Keeps the terminal's modes readable after the program ended.
    slave: OwnedFd,
    before: Termios,
    seen: Arc<Mutex<Vec<u8>>>,
    /// What was waited for lies before this.
    read: usize,
}

impl Pty {
    /// `chat` with these words, in a terminal of 80 columns.
    pub(crate) fn chat(home: &Home, words: &[&str], env: &[(&str, &str)]) -> Self {
        Self::open(home, &[&[PROGRAM, "chat"], words].concat(), env)
    }

    /// Any other command.
    pub(crate) fn command(home: &Home, words: &[&str]) -> Self {
        Self::spawn(home, &[&[PROGRAM], words].concat(), &[])
    }

    /// The same as a job of a shell, which says so when it has the terminal and then goes on with the job.
    pub(crate) fn job(home: &Home) -> Self {
        let script = "set -m; \"$0\" chat; echo the shell has it; fg";
        Self::open(home, &["/bin/sh", "-c", script, PROGRAM], &[])
    }

    /// The same where the processes above it cannot be seen, as in a container; `None` where this user cannot make such
    /// a place.
    pub(crate) fn contained(home: &Home) -> Option<Self> {
        let apart = ["unshare", "--pid", "--fork"];
        let may = Command::new(apart[0])
            .args(&apart[1..])
            .arg("true")
            .status()
            .is_ok_and(|status| status.success());
        may.then(|| {
            Self::open(home, &[&apart[..], &["setsid", "--fork", "--wait", PROGRAM, "chat"]].concat(), &[])
        })
    }

    fn open(home: &Home, words: &[&str], env: &[(&str, &str)]) -> Self {
        let mut pty = Self::spawn(home, words, env);
        // What is typed before belongs to the terminal's own line, where Enter is another character.
        pty.until("/help");
        pty
    }

    fn spawn(home: &Home, words: &[&str], env: &[(&str, &str)]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal can be made");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("it can be opened");
        let name = ptsname(&master, Vec::new()).expect("it has a name").into_string().expect("in UTF-8");
        let open = || File::options().read(true).write(true).open(&name).expect("its other side opens");
        let slave: OwnedFd = open().into();
        let size = Winsize { ws_col: 80, ws_row: 24, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&slave, size).expect("it has a size");
        let before = tcgetattr(&slave).expect("it has modes");
        // It is the terminal of the program, so that the program hears when its size changes.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).args(words);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
        command.env("TIDEGATE_HOME", home.root()).env("HOME", home.around().join("user"));
        command.env("TERM", "xterm-256color").envs(env.iter().copied()).current_dir(home.around());
        command.stdin(Stdio::from(open())).stdout(Stdio::from(open())).stderr(Stdio::from(open()));
        let child = command.spawn().expect("the program starts");
        let master = File::from(master);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, kept) = (master.try_clone().expect("a second handle"), Arc::clone(&seen));
        tidegate_runtime::spawn_thread("pty", move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut chunk) {
                kept.lock().unwrap().extend_from_slice(&chunk[..read]);
            }
        })
        .expect("a thread can be started");
        Self { child, master, slave, before, seen, read: 0 }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("the program reads its terminal");
    }

    /// Everything that appeared, as it was written.
    pub(crate) fn raw(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// Waits until this text appears, after what was waited for before.
    pub(crate) fn until(&mut self, text: &str) {
        let begin = Instant::now();
        loop {
            let shown = plain(&self.raw());
            if let Some(at) = shown.get(self.read..).and_then(|rest| rest.find(text)) {
                self.read += at + text.len();
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{text:?} did not appear after byte {}: {shown}", self.read);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.slave, size).expect("the size can be changed");
    }

    /// Signals the program itself, which is the child of what gave it its terminal.
    pub(crate) fn signal(&self, signal: Signal) {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let children = std::fs::read_to_string(children).unwrap_or_default();
        let first = children.split_whitespace().next().map_or(self.child.id().to_string(), str::to_owned);
        let pid = first.parse().ok().and_then(Pid::from_raw).expect("a process has a number");
        kill_process(pid, signal).expect("the program can be signalled");
    }

    /// Waits for the end; the terminal must be as it was.
    pub(crate) fn ended(mut self) -> Option<i32> {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                break status;
            }
            assert!(begin.elapsed() < PATIENCE, "it does not end: {}", plain(&self.raw()));
            std::thread::sleep(Duration::from_millis(10));
        };
        let after = tcgetattr(&self.slave).expect("the terminal is still there");
        let modes = |modes: &Termios| (modes.input_modes, modes.output_modes, modes.local_modes);
        assert_eq!(modes(&after), modes(&self.before), "the terminal is left as it was");
        status.code()
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Without escape sequences.
pub(crate) fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic());
        plain.push_str(end.and_then(|end| part.get(end + 1..)).unwrap_or_default());
    }
    plain
}
