//! Telling that a test was skipped, where somebody sees it.
//!
//! A runner hides what a passing test prints, and a skipped test passes. So the line also goes to the file that
//! `TIDEGATE_SKIPS` names, which `make test` prints at its end.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Says which test was skipped and what it needs.
pub fn skip_loudly(why: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED {}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(file) = std::env::var_os("TIDEGATE_SKIPS") {
        let file = OpenOptions::new().create(true).append(true).open(file);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
