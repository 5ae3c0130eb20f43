//! Running the program: one call, what came out of it, and what a failure must look like.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// No call takes longer than this, however loaded the machine is.
const PATIENCE: Duration = Duration::from_secs(90);

/// A process about to be started.
pub(crate) struct Call {
    command: Command,
    stdin: Vec<u8>,
    shown: String,
}

impl Call {
    /// Nothing of the test's own environment reaches the process.
    pub(crate) fn new(program: impl AsRef<OsStr>, words: &[impl AsRef<OsStr>]) -> Self {
        let mut command = Command::new(program);
        command.args(words).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
        let words: Vec<_> = words.iter().map(|word| word.as_ref().to_string_lossy().into_owned()).collect();
        Self { command, stdin: Vec::new(), shown: words.join(" ").chars().take(300).collect() }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Starts it in this folder.
    pub(crate) fn inside(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    pub(crate) fn start(mut self) -> Running {
        let piped = self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = piped.spawn().expect("the program starts");
        Running { child, stdin: self.stdin, shown: self.shown }
    }

    /// Runs to the end, whatever that is.
    pub(crate) fn run(self) -> Done {
        self.start().wait()
    }

    /// Runs to the end, which must be a good one.
    pub(crate) fn ok(self) -> Done {
        let done = self.run();
        assert_eq!((done.code, done.signal), (Some(0), None), "{done:?}");
        done
    }

    /// What a successful call with JSON output printed.
    pub(crate) fn json(self) -> Value {
        self.ok().json()
    }

    /// Runs to an end that must be exit code 1 with this error; answers its message.
    pub(crate) fn fails(self, code: &str) -> Failed {
        self.run().failed(1, code)
    }
}

/// A process that was started.
pub(crate) struct Running {
    child: Child,
    stdin: Vec<u8>,
    shown: String,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).expect("a child has a pid");
        kill_process(pid, signal).expect("the child can be signalled");
    }

    /// The next line of standard output, from a process that stays. Empty when it ended without one.
    pub(crate) fn line(&mut self) -> String {
        let out = self.child.stdout.as_mut().expect("stdout is piped");
        let (mut line, mut byte) = (Vec::new(), [0]);
        while out.read(&mut byte).expect("stdout can be read") == 1 && byte != [b'\n'] {
            line.push(byte[0]);
        }
        String::from_utf8(line).expect("stdout is UTF-8")
    }

    /// The next word on standard error that begins so, from a process that stays.
    pub(crate) fn complaint(&mut self, beginning: &str) -> String {
        let errors = self.child.stderr.as_mut().expect("stderr is piped");
        let (mut word, mut byte, mut all) = (Vec::new(), [0], Vec::new());
        while errors.read(&mut byte).expect("stderr can be read") == 1 {
            all.push(byte[0]);
            if !byte[0].is_ascii_whitespace() {
                word.push(byte[0]);
                continue;
            }
            let text = String::from_utf8(std::mem::take(&mut word)).expect("stderr is UTF-8");
            if text.starts_with(beginning) {
                return text;
            }
        }
        panic!("{} never said {beginning}: {}", self.shown, String::from_utf8_lossy(&all));
    }

    /// Whether it has not ended yet.
    pub(crate) fn is_there(&mut self) -> bool {
        self.child.try_wait().expect("the child can be waited for").is_none()
    }

    /// Reads one byte of standard output and goes away, as `head -c1` does.
    pub(crate) fn read_one_byte_and_leave(mut self) -> Done {
        let input =
            self.child.stdin.take().map(|mut input| input.write_all(&std::mem::take(&mut self.stdin)));
        assert!(input.is_some_and(|written| written.is_ok()), "the program reads its input");
        let mut out = self.child.stdout.take().expect("stdout is piped");
        let mut byte = [0];
        out.read_exact(&mut byte).expect("the program prints something");
        drop(out);
        self.wait()
    }

    pub(crate) fn wait(mut self) -> Done {
        let (input, output, errors) =
            (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let text = std::mem::take(&mut self.stdin);
        let status = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A process may end without reading what it is given.
                input.map(|mut input| input.write_all(&text))
            });
            scope.spawn(|| output.map(|mut output| output.read_to_end(&mut stdout)));
            scope.spawn(|| errors.map(|mut errors| errors.read_to_end(&mut stderr)));
            let start = Instant::now();
            loop {
                if let Some(status) = self.child.try_wait().expect("the child can be waited for") {
                    return Ok(status);
                }
                if start.elapsed() > PATIENCE {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    return Err(());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let Ok(status) = status else { panic!("`{}` did not end within {PATIENCE:?}", self.shown) };
        Done {
            words: std::mem::take(&mut self.shown),
            code: status.code(),
            signal: status.signal(),
            stdout: String::from_utf8(stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(stderr).expect("stderr is UTF-8"),
        }
    }
}

/// How a process ended and what it had said.
#[derive(Debug)]
pub(crate) struct Done {
    words: String,
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// An error as a person and a script were told it.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The text behind `[CODE] `, up to the end of its line.
    pub(crate) message: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not JSON ({error}): {self:?}"))
    }

    /// The failure every command promises: this exit code, `[CODE] message` on standard error, and nothing on
    /// standard output, or the same code and message as JSON (or, of `status`, what it could find out).
    pub(crate) fn failed(self, exit: i32, code: &str) -> Failed {
        assert_eq!((self.code, self.signal), (Some(exit), None), "{self:?}");
        let lead = format!("[{code}] ");
        let message = self.stderr.lines().find_map(|line| line.strip_prefix(&lead));
        let message = message.unwrap_or_else(|| panic!("no {code} on stderr: {self:?}")).to_owned();
        assert!(!self.stderr.contains("panicked at"), "{self:?}");
        // `status` shows what it knows before it tells what is wrong.
        let partial = self.words.starts_with("status") && self.stdout.starts_with("version");
        if !self.stdout.is_empty() && !partial {
            let told = self.json();
            assert_eq!(told["success"], false, "{self:?}");
            assert_eq!(told["error"]["code"], code, "{self:?}");
            let full = told["error"]["message"].as_str().expect("an error has a message");
            assert_eq!(full.lines().next(), Some(message.as_str()), "{self:?}");
        }
        Failed { message, stdout: self.stdout, stderr: self.stderr }
    }
}
