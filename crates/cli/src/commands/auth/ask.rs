//! Asking the person at the terminal: a line, a line that must not be seen, yes or no.
//!
//! Questions go to standard error, so that what the command answers can still be read by a program.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use tidegate_protocol::ErrorCode;
use tidegate_secrets::Secret;

use crate::failure::{Failure, With as _};
use crate::output::complain;
use crate::texts;

/// How often somebody who waits for a line looks whether it is still wanted.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Longer than any key.
const LONGEST: usize = 16 << 10;

/// Whether there is somebody to ask.
pub(in crate::commands) fn is_there() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

fn show(question: &str) {
    let mut out = std::io::stderr().lock();
    // A terminal that went away shows in the answer.
    let _ = out.write_all(question.as_bytes()).and_then(|()| out.flush());
}

pub(in crate::commands) fn line(question: &str) -> Result<String, Failure> {
    show(question);
    Ok(read_line()?.unwrap_or_default())
}

/// Nothing when the input has ended: whoever was there is gone.
fn read_line() -> std::io::Result<Option<String>> {
    let mut line = String::new();
    let read = std::io::stdin().lock().take(LONGEST as u64).read_line(&mut line)?;
    Ok((read > 0).then(|| line.trim().to_owned()))
}

/// A line, until nobody wants the answer any more: then what is typed is left to whoever reads the terminal next.
pub(in crate::commands) fn line_while(question: &str, wanted: &dyn Fn() -> bool) -> Option<String> {
    show(question);
    while wanted() {
        // A terminal hands over whole lines, so there is one to read when there is anything.
        if is_typed(LOOK)? {
            return read_line().ok().flatten();
        }
    }
    None
}

/// Whether there is something to read, or the end; nothing when that cannot be told.
fn is_typed(within: Timespec) -> Option<bool> {
    let stdin = std::io::stdin();
    let mut watched = [PollFd::new(&stdin, PollFlags::IN)];
    match poll(&mut watched, Some(&within)) {
        Ok(ready) => Some(ready > 0),
        Err(Errno::INTR) => Some(false),
        Err(_) => None,
    }
}

pub(super) fn yes(question: &str) -> Result<bool, Failure> {
    Ok(matches!(line(question)?.as_str(), "y" | "Y" | "yes"))
}

/// What is typed is not shown. Ctrl-C arrives as a character, so that the terminal is always left as it was.
pub(super) fn secret(question: &str) -> Result<Secret, Failure> {
    let hidden = Hidden::begin()?;
    show(question);
    let typed = typed(&mut std::io::stdin().lock().bytes());
    drop(hidden);
    complain("");
    typed
}

fn typed(bytes: &mut dyn Iterator<Item = std::io::Result<u8>>) -> Result<Secret, Failure> {
    const CTRL_C: u8 = 3;
    const CTRL_D: u8 = 4;
    const CTRL_U: u8 = 0x15;
    // Room for all of it from the start: a buffer that grows leaves copies behind.
    let mut typed = Vec::with_capacity(LONGEST);
    for byte in bytes {
        match byte? {
            b'\n' | b'\r' | CTRL_D => break,
            CTRL_C => {
                let failure = Failure::new(ErrorCode::Aborted, texts::LOGIN_CANCELLED.with(&[]));
                return Err(Failure { exit: 130, ..failure });
            }
            CTRL_U => typed.clear(),
            0x7f | 0x08 => {
                typed.pop();
            }
            byte if typed.len() < LONGEST => typed.push(byte),
            _ => {}
        }
    }
    Ok(trimmed(String::from_utf8(typed).unwrap_or_default()))
}

/// Without the blanks around it, and without another copy of it.
pub(super) fn trimmed(mut text: String) -> Secret {
    text.truncate(text.trim_end().len());
    text.drain(..text.len() - text.trim_start().len());
    Secret::new(text)
}

/// The terminal without echo, until this is dropped.
struct Hidden {
    before: Termios,
}

impl Hidden {
    fn begin() -> Result<Self, Failure> {
        let before = termios::tcgetattr(std::io::stdin()).map_err(std::io::Error::from)?;
        let mut silent = before.clone();
        silent.local_modes &= !(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &silent).map_err(std::io::Error::from)?;
        Ok(Self { before })
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Secret, Failure> {
        typed(&mut text.as_bytes().iter().map(|byte| Ok(*byte)))
    }

    #[test]
    fn a_line_can_be_mended_while_it_is_typed() {
        assert_eq!(read(" abX\u{7f}c \nmore").unwrap().expose(), "abc");
        assert_eq!(read("wrong\u{15}right\r").unwrap().expose(), "right");
        assert!(read("\n").unwrap().is_empty());
    }

    #[test]
    fn the_interrupt_key_ends_it_with_the_exit_code_of_a_signal() {
        let failure = read("half\u{3}").unwrap_err();
        assert_eq!((failure.code, failure.exit), (ErrorCode::Aborted, 130));
    }
}
