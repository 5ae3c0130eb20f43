//! The `tidegate` program: the composition root. It reads the command line, puts the parts together and prints.

mod app;
mod arguments;
mod commands;
mod failure;
mod output;
mod settings;
mod store;
mod texts;

use std::process::ExitCode;

use app::App;
use failure::Failure;

fn main() -> ExitCode {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let words: Vec<String> = words.collect();
    let app = App::new(&program);
    match commands::run(&app, &words) {
        Ok(code) => code,
        Err(failure) => app.report(&failure, arguments::wants_json(&words)),
    }
}

/// What a command answers: its exit code, or what went wrong.
type Outcome = Result<ExitCode, Failure>;
