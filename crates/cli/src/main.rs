//! The `tidegate` program: the composition root. It reads the command line, puts the parts together and prints.

mod app;
mod arguments;
mod bars;
mod cells;
mod chat;
mod commands;
mod failure;
mod leaks;
mod log;
mod output;
mod proxies;
mod reach;
mod registry;
mod sandboxes;
mod signals;
mod store;
mod texts;
mod toolbox;

use std::process::ExitCode;

use app::App;
use failure::{Failure, With as _};
use output::complain;
use tidegate_protocol::ErrorCode;

/// How the program is started when it is to supervise a command: see `tidegate_sandbox`. Nobody types this.
pub(crate) const SUPERVISE: &str = "__supervise";

fn main() -> ExitCode {
    // First of all: a supervisor has one thread and loads nothing.
    if std::env::args_os().nth(1).is_some_and(|word| word == SUPERVISE) {
        return tidegate_sandbox::supervise();
    }
    // A panic is caught where it matters and told as an error there; the default would print a dump before it.
    std::panic::set_hook(Box::new(|panic| note_panic(&panic.to_string())));
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let words: Vec<_> = words.collect();
    let shown: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let app = App::new(&program.to_string_lossy(), &shown);
    let mut readable = Vec::with_capacity(words.len());
    for (word, position) in words.iter().zip(1..) {
        let Some(text) = word.to_str() else {
            let message = texts::NOT_UTF8.with(&[("position", &position), ("word", &word.to_string_lossy())]);
            let asked = shown.iter().any(|word| word == "ask") && !app.output.terminal;
            let json = asked || arguments::wants_json(&shown);
            return app.report(&Failure::new(ErrorCode::InvalidValue, message), json);
        };
        readable.push(text.to_owned());
    }
    match commands::run(&app, &readable) {
        Ok(code) => code,
        Err(failure) => app.report(&failure, arguments::wants_json(&readable)),
    }
}

/// Where the panic was, on one line, for whoever mends it.
fn note_panic(panic: &str) {
    if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
        complain(&format!("{}\n{}", panic, std::backtrace::Backtrace::force_capture()));
    } else {
        complain(&format!("fault: {}", panic.replace("panicked at ", "").replace('\n', " ")));
    }
}

/// What a command answers: its exit code, or what went wrong.
type Outcome = Result<ExitCode, Failure>;
