//! Signals: the supervisor takes none, what it starts takes all.

use std::io;
use std::mem::MaybeUninit;

/// Makes every signal do what it does by default, whatever the gateway was started with (`nohup`, a shell's
/// background), and holds all of them back, so that nobody ends the supervisor with anything less than SIGKILL.
pub(super) fn hold_back() -> io::Result<()> {
    for signal in 1..=last() {
        // SIGPIPE stays ignored here: writing to a gateway that is gone must not be the end.
        if !matches!(signal, libc::SIGKILL | libc::SIGSTOP | libc::SIGPIPE) {
            set_default(signal);
        }
    }
    set_mask(Mask::All)
}

/// Lets a program begin with no signal held back or ignored. It runs between fork and exec.
pub(super) fn let_through() -> io::Result<()> {
    set_default(libc::SIGPIPE);
    set_mask(Mask::None)
}

#[cfg(target_os = "linux")]
fn last() -> i32 {
    libc::SIGRTMAX()
}

#[cfg(not(target_os = "linux"))]
fn last() -> i32 {
    31
}

fn set_default(signal: i32) {
    // Numbers that are no signals are refused, which is as well.
    #[expect(unsafe_code, reason = "no safe call sets a disposition; the default installs no code of ours")]
    // SAFETY: no handler is installed, and the call is one of those allowed between fork and exec.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
    }
}

#[derive(Clone, Copy)]
enum Mask {
    All,
    None,
}

fn set_mask(mask: Mask) -> io::Result<()> {
    let mut set = MaybeUninit::uninit();
    #[expect(unsafe_code, reason = "no safe call sets the signal mask")]
    // SAFETY: the set is filled or emptied before it is read; all calls are allowed between fork and exec.
    let result = unsafe {
        match mask {
            Mask::All => libc::sigfillset(set.as_mut_ptr()),
            Mask::None => libc::sigemptyset(set.as_mut_ptr()),
        };
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
