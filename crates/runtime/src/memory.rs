//! Memory that nobody needs any more, given back to the system while the process idles.
//!
//! A start and a burst leave much behind: code that ran once and stays mapped, and freed pieces that the allocator keeps
//! for later. Both are let go when the process has nothing to do, so that it costs nobody who needs them.

use std::time::Duration;

use crate::{Shutdown, spawn_blocking};

/// How often is looked.
const LOOK: Duration = Duration::from_secs(10);
/// A process that worked for less than this since the last look idles.
const IDLE: Duration = Duration::from_millis(100);
/// So much more than after the last time is worth the work.
const WORTH: u64 = 2 << 20;

/// Gives memory back whenever the process idles after it worked, until it is told to stop.
pub async fn keep_small(stop: Shutdown) {
    let mut keeper = Keeper::default();
    loop {
        tokio::select! {
            () = stop.requested() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let (Some(own), Some(worked)) = (own_memory(), worked()) else { return };
        if keeper.wants(own, worked) {
            // Walking through a large heap takes a while.
            let _ = spawn_blocking("memory", give_back).join().await;
            keeper.gave_back(own_memory().unwrap_or(own));
        }
    }
}

/// Decides when there is something to give back.
#[derive(Debug, Default)]
struct Keeper {
    /// CPU time at the last look.
    worked: Option<Duration>,
    /// Memory of its own after it was last given back.
    level: Option<u64>,
}

impl Keeper {
    fn wants(&mut self, own: u64, worked: Duration) -> bool {
        let before = self.worked.replace(worked).unwrap_or_default();
        let idles = worked.saturating_sub(before) < IDLE;
        idles && self.level.is_none_or(|level| own > level + WORTH)
    }

    fn gave_back(&mut self, own: u64) {
        self.level = Some(own);
    }
}

fn give_back() {
    trim_allocator();
    if let Err(error) = let_go_of_code() {
        tracing::debug!(%error, "code that is not in use stays in memory");
    }
}

/// Bytes that belong to this process alone: what is mapped from files can be read again.
fn own_memory() -> Option<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut numbers = pages.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (resident, shared) = (numbers.nth(1)?, numbers.next()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// CPU time of all threads.
fn worked() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn trim_allocator() {
    #[expect(unsafe_code, reason = "no safe call gives back what the allocator keeps; it takes no pointer")]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim_allocator() {}

/// Unmaps the program's code; what is in use is mapped again at its next step.
fn let_go_of_code() -> std::io::Result<()> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let program = std::env::current_exe()?;
    let ranges = maps.lines().filter_map(|line| code_range(line, program.to_str()?));
    for range in ranges {
        // Only memory that can be executed and not written: it is the same as in the file, and nowhere changed.
        #[expect(unsafe_code, reason = "the range is the program's unchanged code, read again from its file")]
        unsafe {
            rustix::mm::madvise(
                range.start as *mut std::ffi::c_void,
                range.len(),
                rustix::mm::Advice::LinuxDontNeed,
            )?;
        }
    }
    Ok(())
}

/// Where a line of the memory map has code of the program that cannot be written.
fn code_range(line: &str, program: &str) -> Option<std::ops::Range<usize>> {
    let mut words = line.split_whitespace();
    let (range, mode) = (words.next()?, words.next()?);
    let path = words.nth(3)?;
    if mode != "r-xp" || path != program {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let address = |text: &str| usize::from_str_radix(text, 16).ok();
    Some(address(start)?..address(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    #[test]
    fn memory_is_given_back_when_the_process_idles_after_it_worked() {
        let mut keeper = Keeper::default();
        let at = Duration::from_millis;
        assert!(!keeper.wants(10 * MB, at(500)), "it has just worked");
        assert!(keeper.wants(10 * MB, at(510)), "the start is over");
        keeper.gave_back(6 * MB);
        assert!(!keeper.wants(7 * MB, at(520)), "not worth it");
        assert!(!keeper.wants(90 * MB, at(9_000)), "it works");
        assert!(keeper.wants(90 * MB, at(9_010)));
    }

    #[test]
    fn only_code_of_the_program_is_let_go() {
        let line = |mode: &str, path: &str| format!("55d0-55f0 {mode} 0000 fe:00 123   {path}");
        assert_eq!(code_range(&line("r-xp", "/bin/it"), "/bin/it"), Some(0x55d0..0x55f0));
        assert_eq!(
            code_range(&line("r--p", "/bin/it"), "/bin/it"),
            None,
            "it may hold what the linker wrote"
        );
        assert_eq!(code_range(&line("r-xp", "/lib/libc.so.6"), "/bin/it"), None);
        assert_eq!(code_range("55d0-55f0 rw-p 0000 00:00 0", "/bin/it"), None);
    }

    /// Runs on after its code was unmapped under it, and the numbers that decide can be read.
    #[test]
    fn a_process_goes_on_without_the_code_it_does_not_use() {
        give_back();
        assert!(own_memory().is_some_and(|own| own > 0));
        assert!(worked().is_some_and(|worked| worked > Duration::ZERO));
    }
}
