//! For this crate's tests: a supervisor, or, with a behaviour, a server that has it.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(behaviour) = words.next() else { return tidegate_sandbox::supervise() };
    tidegate_testkit::mcp_server::serve(&behaviour, words.next().as_deref());
    ExitCode::SUCCESS
}
