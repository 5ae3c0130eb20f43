//! What a command does when a call brought no answer. Pure: the caller waits and tries.

use std::time::Duration;

use crate::error::ClientError;

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nobody serves this home: take its lock and do the work here. If the lock is taken, somebody just began: call again.
    Own,
    /// Call again after this pause, with the same key.
    Again(Duration),
    /// The error is the outcome.
    Fail,
}

/// Decides after the `tries`-th failure (from 1), with `left` until the caller's deadline.
pub fn after_failure(error: &ClientError, tries: u32, left: Duration) -> Next {
    match error {
        ClientError::Nobody { .. } => Next::Own,
        ClientError::Closing { .. } => {
            let pause = Duration::from_millis(5).saturating_mul(1 << tries.min(10)).min(LONGEST_PAUSE);
            if pause < left { Next::Again(pause) } else { Next::Fail }
        }
        ClientError::Server { .. }
        | ClientError::Lost { .. }
        | ClientError::Protocol { .. }
        | ClientError::Deadline(_) => Next::Fail,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::api::Problem;
    use tidegate_protocol::{ErrorCode, Id as _, RunId};

    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    fn at() -> String {
        "control.sock".to_owned()
    }

    #[test]
    fn a_closing_socket_is_tried_again_with_growing_pauses_until_the_deadline() {
        let closing = ClientError::Closing { at: at() };
        let pauses: Vec<_> = (1..8).map(|tries| after_failure(&closing, tries, LONG)).collect();
        let expected = [10, 20, 40, 80, 160, 200, 200].map(|ms| Next::Again(Duration::from_millis(ms)));
        assert_eq!(pauses, expected);
        assert_eq!(after_failure(&closing, 1, Duration::from_millis(10)), Next::Fail);
        assert_eq!(after_failure(&closing, u32::MAX, LONG), Next::Again(LONGEST_PAUSE));
    }

    #[test]
    fn where_nobody_listens_the_work_is_done_here() {
        assert_eq!(after_failure(&ClientError::Nobody { at: at() }, 1, LONG), Next::Own);
    }

    #[test]
    fn what_was_answered_or_accepted_is_never_sent_again() {
        let refused =
            Problem { code: ErrorCode::BadRequest, message: "no".to_owned(), hint: None, details: None };
        for error in [
            ClientError::Server { status: 400, problem: Box::new(refused) },
            ClientError::Lost { run: RunId::from_parts(1, [0; 10]) },
            ClientError::Protocol { at: at(), what: "?".to_owned() },
            ClientError::Deadline(LONG),
        ] {
            assert_eq!(after_failure(&error, 1, LONG), Next::Fail, "{error}");
        }
    }
}
