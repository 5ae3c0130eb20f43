//! What else the machine was doing: a benchmark on a busy machine says so.

use std::fs;

/// A folder for a benchmark's files: below `TIDEGATE_BENCH_DIR`, on the disk that is to be measured, or here.
pub(crate) fn bench_folder() -> std::io::Result<tempfile::TempDir> {
    match std::env::var_os("TIDEGATE_BENCH_DIR") {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir_in("."),
    }
}

/// CPU time of all processes and of this one, in clock ticks.
#[derive(Clone, Copy)]
pub(crate) struct Cpu {
    busy: u64,
    own: u64,
}

impl Cpu {
    pub(crate) fn now() -> Self {
        let numbers = |text: &str| {
            text.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).collect::<Vec<_>>()
        };
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let all = numbers(stat.lines().next().unwrap_or_default().trim_start_matches("cpu"));
        // user, nice, system; then idle and iowait, which are not work; irq, softirq.
        let busy = [0, 1, 2, 5, 6].iter().filter_map(|at| all.get(*at)).sum();
        let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let own = numbers(own.rsplit(')').next().unwrap_or_default().trim_start_matches([' ', 'R', 'S']));
        // After the state: utime and stime are the 12th and 13th.
        let own = [10, 11].iter().filter_map(|at| own.get(*at)).sum();
        Self { busy, own }
    }

    /// The share of the work since then that other processes did.
    pub(crate) fn others_since(self) -> f64 {
        let now = Self::now();
        let busy = now.busy.saturating_sub(self.busy);
        let own = now.own.saturating_sub(self.own);
        if busy == 0 { 0.0 } else { (busy.saturating_sub(own)) as f64 / busy as f64 }
    }
}

/// CPU time of this process so far, in seconds.
pub(crate) fn own_cpu_seconds() -> f64 {
    cpu_seconds_of(std::process::id())
}

/// CPU time of a process so far, in seconds: of every thread, from the scheduler itself.
pub(crate) fn cpu_seconds_of(pid: u32) -> f64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return f64::NAN };
    let nanoseconds: u64 = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    nanoseconds as f64 / 1e9
}

/// Resident memory of this process now, in megabytes.
pub(crate) fn resident_mb() -> f64 {
    resident_mb_of(std::process::id())
}

/// Resident memory of a process now, in megabytes.
pub(crate) fn resident_mb_of(pid: u32) -> f64 {
    memory_mb(pid, "VmRSS:")
}

/// A process's proportional share of memory now, in kilobytes.
pub(crate) fn proportional_kb_of(pid: u32) -> f64 {
    let maps = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = maps.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap_or(f64::NAN)
}

/// The most that was resident since [`forget_peak`], in megabytes.
pub(crate) fn peak_mb() -> f64 {
    memory_mb(std::process::id(), "VmHWM:")
}

/// The peak of resident memory begins at what is resident now.
pub(crate) fn forget_peak() -> std::io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

fn memory_mb(pid: u32, name: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").trim().parse().unwrap_or(f64::NAN);
    kilobytes / 1000.0
}
