//! Where the old part of a conversation ends.

use tidegate_protocol::Role;

use super::room::Room;
use crate::context::{Line, estimate};

/// Where a conversation is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The first line that stays as it is; the number of lines when none does.
    pub first_kept: usize,
    /// The message that began the turn, when it is cut in two.
    pub turn_start: Option<usize>,
}

/// Cuts so that about `keep` tokens stay. A result stays with its call: it is never the first.
pub fn cut_point(lines: &[Line], keep: u64) -> Cut {
    let mut sum = 0_u64;
    let full = lines.iter().rposition(|line| {
        sum = sum.saturating_add(estimate(&line.message));
        sum >= keep
    });
    let Some(full) = full else { return Cut { first_kept: 0, turn_start: None } };
    let (before, after) = lines.split_at(full);
    let next = after.iter().position(can_be_first).map(|at| full + at);
    at(lines, next.or_else(|| before.iter().rposition(can_be_first)).unwrap_or(0))
}

/// The cut that leaves no more than can stay; `None` when all of it can.
pub(super) fn fitting(lines: &[Line], room: &Room) -> Option<Cut> {
    let mut first_kept = cut_point(lines, room.keep).first_kept;
    while !fits(lines.get(first_kept..).unwrap_or_default(), room.tail) {
        let rest = lines.get(first_kept + 1..).unwrap_or_default();
        first_kept = rest.iter().position(can_be_first).map_or(lines.len(), |next| first_kept + 1 + next);
    }
    (first_kept > 0).then(|| at(lines, first_kept))
}

fn fits(lines: &[Line], tail: u64) -> bool {
    lines.iter().map(|line| estimate(&line.message)).fold(0, u64::saturating_add) <= tail
}

fn can_be_first(line: &Line) -> bool {
    line.message.role() != Role::ToolResult
}

fn at(lines: &[Line], first_kept: usize) -> Cut {
    let is_user = |line: &Line| line.message.role() == Role::User;
    let whole = lines.get(first_kept).is_some_and(is_user);
    let before = lines.get(..first_kept).unwrap_or_default();
    Cut { first_kept, turn_start: before.iter().rposition(is_user).filter(|_| !whole) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::tests::{answer, calling, log, result, user};

    fn lines(entries: &[(&str, usize)]) -> Vec<Line> {
        let message = |(role, size): &(&str, usize)| match *role {
            "user" => user(&"x".repeat(*size)),
            "assistant" => answer(&"x".repeat(*size)),
            _ => result("c", &"x".repeat(*size)),
        };
        log(entries.iter().map(message).collect())
    }

    #[test]
    fn the_recorded_cases() {
        let plain = [
            ("user", 400),
            ("assistant", 400),
            ("user", 400),
            ("assistant", 400),
            ("user", 400),
            ("assistant", 400),
        ];
        let tools = [
            ("user", 40),
            ("assistant", 40),
            ("toolResult", 4000),
            ("assistant", 40),
            ("toolResult", 4000),
            ("assistant", 40),
        ];
        for (entries, keep, first_kept, turn_start) in [
            (plain, 100, 5, Some(4)),
            (plain, 250, 3, Some(2)),
            (plain, 5000, 0, None),
            (tools, 150, 5, Some(0)),
            (tools, 1100, 3, Some(0)),
        ] {
            assert_eq!(
                cut_point(&lines(&entries), keep),
                Cut { first_kept, turn_start },
                "{entries:?} {keep}"
            );
        }
    }

    #[test]
    fn a_turn_that_stays_whole_has_no_beginning_elsewhere() {
        let lines = lines(&[("user", 400), ("assistant", 400), ("user", 400), ("assistant", 400)]);
        assert_eq!(cut_point(&lines, 200), Cut { first_kept: 2, turn_start: None });
    }

    #[test]
    fn a_result_at_the_end_stays_with_its_call() {
        let lines = log(vec![user("go"), calling("c", "read", "{}"), result("c", &"x".repeat(40_000))]);
        assert_eq!(cut_point(&lines, 100), Cut { first_kept: 1, turn_start: Some(0) });
    }

    #[test]
    fn what_cannot_stay_goes_and_if_it_is_everything() {
        let room = Room { keep: 100, tail: 300, summary: 100 };
        let huge = "x".repeat(40_000);
        let mut lines = log(vec![user("hi"), answer("yes?"), user(&huge), answer("well"), user("and?")]);
        assert_eq!(fitting(&lines, &room), Some(Cut { first_kept: 3, turn_start: Some(2) }));
        lines.truncate(3);
        assert_eq!(fitting(&lines, &room), Some(Cut { first_kept: 3, turn_start: Some(2) }));
        assert_eq!(fitting(&lines[..2], &room), None);
        assert_eq!(fitting(&[], &room), None);
    }
}
