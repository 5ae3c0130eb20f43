//! States and times in a person's words.

use crate::app::App;
use crate::output::printable;
use crate::texts::tools as words;

/// What became of a question; a state of a newer release is said as it is.
pub(super) fn state(app: &App, state: &str) -> String {
    let text = match state {
        "pending" => words::STATE_PENDING,
        "approved" => words::STATE_APPROVED,
        "used" => words::STATE_USED,
        "denied" => words::STATE_DENIED,
        "expired" => words::STATE_EXPIRED,
        "cancelled" => words::STATE_CANCELLED,
        other => return printable(other),
    };
    app.say(text).to_owned()
}

/// How long a question can still be answered.
pub(super) fn time_left(app: &App, ms: i64) -> String {
    let seconds = ms.max(0) / 1_000;
    if seconds < 60 {
        return app.fill(words::SECONDS, &[("seconds", &seconds)]);
    }
    app.fill(words::MINUTES, &[("minutes", &(seconds / 60)), ("seconds", &(seconds % 60))])
}
