//! A supervisor and nothing else, for this crate's tests: the harness of a test has threads, a supervisor has one.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate_sandbox::supervise()
}
