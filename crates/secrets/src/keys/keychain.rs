//! The keychain of a person's session, through the tool that the system has for it.
//!
//! Out of process, so that nothing is linked and nothing can hang: a tool that does not answer in time is killed with
//! all it started. The key goes in and comes out through pipes, never as an argument that others could see.

use std::io::{self, Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};
use zeroize::Zeroizing;

use crate::files::in_search_path;
use crate::seal::SealingKey;

const PATIENCE: Duration = Duration::from_secs(2);
const SERVICE: &str = "tidegate";
/// Much longer than a key.
const ANSWER_LIMIT: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    /// `secret-tool` of libsecret.
    SecretTool,
    /// `security` of macOS.
    Security,
}

/// A keychain that can be asked.
#[derive(Debug, Clone)]
pub struct Keychain {
    program: PathBuf,
    tool: Tool,
}

impl Keychain {
    /// The one of this session, if there is a session and a tool. Asks nothing yet.
    pub fn found() -> Option<Self> {
        if cfg!(target_os = "macos") {
            return Some(Self { program: in_search_path("security")?, tool: Tool::Security });
        }
        if !has_session_bus() {
            return None;
        }
        in_search_path("secret-tool").map(|program| Self::secret_tool(&program))
    }

    /// A program that speaks like libsecret's `secret-tool`.
    pub fn secret_tool(program: &Path) -> Self {
        Self { program: program.to_owned(), tool: Tool::SecretTool }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.tool {
            Tool::SecretTool => "secret-tool",
            Tool::Security => "security",
        }
    }

    /// Stores the key and looks whether it can be had again.
    pub(crate) fn keep(&self, id: &str, key: &SealingKey) -> Result<(), String> {
        let text = key.encode();
        match self.tool {
            Tool::SecretTool => {
                let arguments = ["store", "--label=Tidegate credentials", "application", SERVICE, "key", id];
                self.run(&arguments, text.as_bytes())?;
            }
            Tool::Security => {
                let command = Zeroizing::new(format!(
                    "add-generic-password -U -s {SERVICE} -a {id} -w {}\n",
                    text.as_str()
                ));
                self.run(&["-i"], command.as_bytes())?;
            }
        }
        match self.lookup(id) {
            Ok(kept) if kept.encode() == text => Ok(()),
            other => {
                // Another place will keep the key, and nothing would ever ask for this one.
                self.forget(id);
                Err(other.err().unwrap_or_else(|| "it gave another key back".to_owned()))
            }
        }
    }

    pub(crate) fn lookup(&self, id: &str) -> Result<SealingKey, String> {
        let answer = match self.tool {
            Tool::SecretTool => self.run(&["lookup", "application", SERVICE, "key", id], b"")?,
            Tool::Security => self.run(&["find-generic-password", "-s", SERVICE, "-a", id, "-w"], b"")?,
        };
        let key = std::str::from_utf8(&answer).ok().and_then(SealingKey::decode);
        key.ok_or_else(|| "what it gave is not a key".to_owned())
    }

    /// Removes a key. One that cannot be removed seals nothing any more, so nothing is said.
    pub(crate) fn forget(&self, id: &str) {
        let _ = match self.tool {
            Tool::SecretTool => self.run(&["clear", "application", SERVICE, "key", id], b""),
            Tool::Security => self.run(&["delete-generic-password", "-s", SERVICE, "-a", id], b""),
        };
    }

    fn run(&self, arguments: &[&str], input: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
        let mut child = Command::new(&self.program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{} does not start: {}", self.name(), error.kind()))?;
        if let Some(mut stdin) = child.stdin.take() {
            // Smaller than a pipe holds, so this does not wait. A tool that has ended says so with its status.
            let _ = stdin.write_all(input);
        }
        let answer = wait_for(&mut child);
        // Also what it may have started and left: nothing of it outlives the call.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let _ = child.wait();
        answer.map_err(|cause| format!("{} {cause}", self.name()))
    }
}

/// What the child wrote, once it has ended well. The pipe is never waited for: a grandchild may hold it open.
fn wait_for(child: &mut Child) -> Result<Zeroizing<Vec<u8>>, String> {
    let mut stdout = child.stdout.take().ok_or("has no output")?;
    not_waiting(&stdout).map_err(|error| format!("cannot be read: {error}"))?;
    let start = Instant::now();
    let mut answer = Zeroizing::new(Vec::with_capacity(ANSWER_LIMIT));
    loop {
        let ended = child.try_wait().map_err(|error| format!("is lost: {error}"))?;
        drain(&mut stdout, &mut answer)?;
        match ended {
            Some(status) if status.success() => return Ok(answer),
            Some(_) => return Err("failed; the keychain may be locked or may not have it".to_owned()),
            None if start.elapsed() >= PATIENCE => {
                return Err(format!("did not answer within {} s", PATIENCE.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(3)),
        }
    }
}

fn not_waiting(pipe: &impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(pipe)?;
    Ok(fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?)
}

fn drain(pipe: &mut impl Read, answer: &mut Vec<u8>) -> Result<(), String> {
    let mut chunk = Zeroizing::new([0; 512]);
    loop {
        match pipe.read(chunk.as_mut_slice()) {
            Ok(0) => return Ok(()),
            Ok(read) if answer.len() + read > ANSWER_LIMIT => return Err("said too much".to_owned()),
            Ok(read) => answer.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("cannot be read: {error}")),
        }
    }
}

fn has_session_bus() -> bool {
    let named = std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some_and(|address| !address.is_empty());
    let socket = || std::env::var_os("XDG_RUNTIME_DIR").map(|folder| Path::new(&folder).join("bus").exists());
    named || socket().unwrap_or(false)
}

/// Stand-ins for `secret-tool`, as scripts.
#[cfg(test)]
pub(crate) mod fake {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use super::Keychain;

    /// Keeps each key in a file of `folder`.
    pub(crate) const WORKING: &str = r#"
case "$1" in
  store) cat > "$HERE/kept-$6" ;;
  lookup) cat "$HERE/kept-$5" ;;
  clear) rm -f "$HERE/kept-$5" ;;
esac"#;
    pub(crate) const HANGING: &str = "sleep 600";
    pub(crate) const LOCKED: &str = "exit 1";

    pub(crate) fn keychain(folder: &Path, script: &str) -> Keychain {
        let program = folder.join("secret-tool");
        let text =
            format!("#!/bin/sh\n[ \"$1\" = probe ] && exit 0\nHERE='{}'\n{script}\n", folder.display());
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        // A test beside this one may just have forked and hold the file open for writing for a moment.
        while Command::new(&program).arg("probe").status().is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Keychain::secret_tool(&program)
    }
}

#[cfg(test)]
mod tests {
    use super::fake::{HANGING, LOCKED, WORKING, keychain};
    use super::*;

    #[test]
    fn a_key_is_kept_found_and_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let tool = keychain(home.path(), WORKING);
        let key = SealingKey::random().unwrap();
        tool.keep("key-1", &key).unwrap();
        assert_eq!(tool.lookup("key-1").unwrap().encode(), key.encode());
        tool.forget("key-1");
        assert!(tool.lookup("key-1").is_err());
    }

    #[test]
    fn the_key_is_never_an_argument() {
        let home = tempfile::tempdir().unwrap();
        let tool = keychain(home.path(), &format!("echo \"$@\" >> \"$HERE/seen\"{WORKING}"));
        let key = SealingKey::random().unwrap();
        tool.keep("key-1", &key).unwrap();
        let seen = std::fs::read_to_string(home.path().join("seen")).unwrap();
        assert!(seen.contains("key-1") && !seen.contains(key.encode().as_str()), "{seen}");
    }

    #[test]
    fn a_tool_that_hangs_is_killed() {
        let home = tempfile::tempdir().unwrap();
        let tool = keychain(home.path(), HANGING);
        let start = Instant::now();
        let error = tool.lookup("key-1").map(|_| ()).unwrap_err();
        assert!(error.contains("did not answer"), "{error}");
        assert!(start.elapsed() < PATIENCE * 3);
    }

    #[test]
    fn a_child_that_the_tool_leaves_behind_is_not_waited_for() {
        let home = tempfile::tempdir().unwrap();
        let tool = keychain(home.path(), "sleep 600 &\necho bm8gbW9yZQ==");
        let start = Instant::now();
        let error = tool.lookup("key-1").map(|_| ()).unwrap_err();
        assert_eq!(error, "what it gave is not a key");
        assert!(start.elapsed() < PATIENCE);
    }

    #[test]
    fn every_refusal_is_told_apart_from_a_key() {
        let home = tempfile::tempdir().unwrap();
        for (script, expected) in
            [(LOCKED, "failed"), ("yes | head -c 9000", "said too much"), ("cat >/dev/null", "not a key")]
        {
            let error = keychain(home.path(), script).lookup("key-1").map(|_| ()).unwrap_err();
            assert!(error.contains(expected), "{script}: {error}");
        }
        let missing = Keychain::secret_tool(&home.path().join("nowhere"));
        assert!(missing.lookup("key-1").map(|_| ()).unwrap_err().contains("does not start"));
    }
}
