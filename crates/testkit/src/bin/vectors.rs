//! `vectors <file>`: runs a file of recorded cases against this program. Prints what differs and what we have no function
//! for, and ends with the sum. Exits with 1 when a case failed and with 2 when there is no such file.

use std::io::Write as _;
use std::process::ExitCode;

use tidegate_testkit::vectors;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file] = arguments.as_slice() else {
        return unusable("usage: vectors <file>");
    };
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return unusable(&format!("{file} cannot be read: {error}")),
    };
    match vectors::run(&text) {
        Ok(report) => {
            let written = std::io::stdout().write_all(report.text().as_bytes());
            if written.is_err() || report.failed > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS }
        }
        Err(problem) => unusable(&format!("{file}: {problem}")),
    }
}

fn unusable(problem: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "{problem}");
    ExitCode::from(2)
}
