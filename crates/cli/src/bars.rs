//! Bars made of block characters, for a terminal.

/// From an eighth of a cell to seven.
const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// A bar of `cells` cells for `part` of `whole`. Whatever is there shows: a trace of it is an eighth of a cell.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a share between 0 and 1 of a few hundred cells"
)]
pub(crate) fn bar(part: f64, whole: f64, cells: usize) -> String {
    if part <= 0.0 || whole <= 0.0 {
        return String::new();
    }
    let share = (part / whole).min(1.0);
    let eighths = ((share * cells as f64 * 8.0).round() as usize).max(1);
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

/// The same with the rest of it shown, as a measure that fills up.
pub(crate) fn gauge(part: f64, whole: f64, cells: usize) -> String {
    let filled = bar(part, whole, cells);
    let rest = cells.saturating_sub(filled.chars().count());
    format!("{filled}{}", "░".repeat(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share_and_never_longer_than_its_place() {
        assert_eq!(bar(1.0, 2.0, 4), "██");
        assert_eq!(bar(1.0, 16.0, 4), "▎");
        assert_eq!(bar(9.0, 2.0, 4), "████");
        assert_eq!(bar(0.0, 2.0, 4), "");
        assert_eq!(bar(1.0, 0.0, 4), "");
    }

    #[test]
    fn the_smallest_trace_shows() {
        assert_eq!(bar(1.0, 1e9, 10), "▏");
    }

    #[test]
    fn a_gauge_has_one_length() {
        for part in [0.0, 0.3, 5.0, 10.0, 99.0] {
            assert_eq!(gauge(part, 10.0, 7).chars().count(), 7, "{part}");
        }
    }
}
