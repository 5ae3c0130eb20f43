//! Cards of tool calls: one line while a tool runs, its end and the beginning of what it said afterwards. Pure.

use serde_json::Value;
use tidegate_runtime::catalogue::Language;

use super::line::{BLUE, BOLD, DIM, GREEN, Line, PLAIN, RED, YELLOW};
use crate::commands::gist::gist;
use crate::output::printable;
use crate::texts::chat as words;

/// Lines of output that are shown of a call that is over, and of one that runs.
const SHOWN: usize = 5;
const SHOWN_RUNNING: usize = 3;
/// How much of a tool's output is kept for showing while it runs.
const KEPT: usize = 4 << 10;
/// A call shorter than this shows no time while it runs.
const LONG: i64 = 1_000;
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Milliseconds a frame is shown.
const FRAME: i64 = 100;

/// A call that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Card {
    pub(super) call: String,
    tool: String,
    /// What it was asked for, in a line.
    summary: String,
    began: i64,
    output: String,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Failed,
    /// Decided and shown, and not run.
    Shadowed,
    /// Nobody knows.
    Interrupted,
}

/// How much room there is for a call that is over, and how much of it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) width: usize,
    /// All that the tool said.
    pub(super) whole: bool,
}

impl Card {
    pub(super) fn new(call: &str, tool: &str, args: &Value, now: i64) -> Self {
        let call = call.to_owned();
        Self { call, tool: flat(tool), summary: flat(&gist(args)), began: now, output: String::new() }
    }

    /// More of what the tool said; only the end of it is kept.
    pub(super) fn update(&mut self, text: &str) {
        self.output.push_str(text);
        if self.output.len() > 2 * KEPT {
            let mut from = self.output.len() - KEPT;
            while !self.output.is_char_boundary(from) {
                from += 1;
            }
            self.output.drain(..from);
        }
    }

    /// The card while the tool runs.
    pub(super) fn running(&self, language: Language, now: i64, width: usize) -> Vec<Line> {
        let elapsed = now - self.began;
        let time =
            if elapsed < LONG { String::new() } else { format!("  {}", self::elapsed(language, elapsed)) };
        let head = Line::styled(BLUE, spinner(now)).then(PLAIN, " ").then(BOLD, self.tool.as_str());
        let mut lines = vec![titled(head, &self.summary, &time, width)];
        let output = printable(&self.output);
        let said: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
        let from = said.len().saturating_sub(SHOWN_RUNNING);
        lines.extend(said.iter().skip(from).map(|line| below(line, width)));
        lines
    }

    /// The card of a call that is over, for the scrollback.
    pub(super) fn finished(
        &self,
        language: Language,
        end: End,
        text: &str,
        took: i64,
        look: Look,
    ) -> Vec<Line> {
        let width = look.width;
        let (sign, style) = match end {
            End::Done => ("✓", GREEN),
            End::Failed => ("✗", RED),
            End::Shadowed => ("○", YELLOW),
            End::Interrupted => ("⊘", YELLOW),
        };
        let note = match end {
            End::Shadowed => format!("  ({})", words::SHADOWED.in_language(language)),
            End::Interrupted => format!("  ({})", words::INTERRUPTED.in_language(language)),
            End::Done | End::Failed => format!("  ({})", duration(language, took)),
        };
        let head = Line::styled(style, sign).then(PLAIN, " ").then(BOLD, self.tool.as_str());
        let mut lines = vec![titled(head, &self.summary, &note, width)];
        let output = printable(text);
        let changes = output.lines().any(|line| line.starts_with("@@ -"));
        let is_shown = |line: &&str| !(changes && is_heading(line));
        let said = output.trim_end().lines().skip_while(|line| line.trim().is_empty()).filter(is_shown);
        let said: Vec<&str> = said.collect();
        // A single line is shown rather than counted.
        let shown = if look.whole || said.len() <= SHOWN + 1 { said.len() } else { SHOWN };
        let style = |line: &str| match line.chars().next() {
            _ if end == End::Failed => RED,
            Some('-') if changes => RED,
            Some('+') if changes => GREEN,
            _ => DIM,
        };
        lines.extend(
            said.iter()
                .take(shown)
                .map(|line| Line::styled(PLAIN, "  ").then(style(line), line.trim_end()).cut(width)),
        );
        if said.len() > shown {
            let more = words::MORE_LINES.fill(language, &[("count", &(said.len() - shown))]);
            lines.push(below(&more, width));
        }
        lines
    }
}

/// Whether a line of a diff says where it is instead of what changed.
fn is_heading(line: &str) -> bool {
    ["--- ", "+++ ", "@@ -"].iter().any(|heading| line.starts_with(heading))
}

/// The head, what was asked in the room that is left, and a note that is never cut.
fn titled(head: Line, summary: &str, note: &str, width: usize) -> Line {
    let room = width.saturating_sub(head.cells() + crate::cells::cells(note) + 2);
    let mut line = head;
    if !summary.is_empty() && room > 1 {
        line.push(PLAIN, "  ");
        line.append(&Line::styled(PLAIN, summary).cut(room));
    }
    line.then(DIM, note)
}

fn below(text: &str, width: usize) -> Line {
    Line::styled(PLAIN, "  ").then(DIM, text.trim_end()).cut(width)
}

/// What turns while something is under way.
pub(super) fn spinner(now: i64) -> &'static str {
    let frame = usize::try_from(now.rem_euclid(FRAME * 10) / FRAME).unwrap_or(0);
    FRAMES.get(frame).copied().unwrap_or("⠋")
}

/// The time of something that goes on: whole seconds, which do not flicker.
pub(super) fn elapsed(language: Language, ms: i64) -> String {
    let seconds = ms.max(0) / 1_000;
    if seconds < 60 {
        return words::SECONDS.fill(language, &[("seconds", &seconds)]);
    }
    let rest = format!("{:02}", seconds % 60);
    words::MINUTES.fill(language, &[("minutes", &(seconds / 60)), ("seconds", &rest)])
}

/// A time as people say it.
pub(super) fn duration(language: Language, ms: i64) -> String {
    let ms = ms.max(0);
    if ms < 10_000 {
        let tenths = (ms + 50) / 100;
        return words::SECONDS.fill(language, &[("seconds", &format!("{}.{}", tenths / 10, tenths % 10))]);
    }
    elapsed(language, ms)
}

/// A text on one line.
fn flat(text: &str) -> String {
    let words: Vec<String> = printable(text).split_whitespace().map(str::to_owned).collect();
    // Far more than a line can show.
    words.join(" ").chars().take(500).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EN: Language = Language::English;

    fn text(lines: &[Line]) -> Vec<String> {
        lines.iter().map(Line::text).collect()
    }

    fn brief(width: usize) -> Look {
        Look { width, whole: false }
    }

    fn card() -> Card {
        Card::new("c1", "exec", &json!({"command": "git status\n --short", "timeout": 5}), 1_000)
    }

    #[test]
    fn a_card_says_what_runs_and_after_a_second_for_how_long() {
        let mut card = card();
        assert_eq!(text(&card.running(EN, 1_400, 60)), ["⠼ exec  git status --short"]);
        card.update("one\n\ntwo\nthree\nfour\x1b[2J\n");
        assert_eq!(
            text(&card.running(EN, 13_000, 60)),
            ["⠋ exec  git status --short  12 s", "  two", "  three", "  four\u{fffd}[2J"]
        );
    }

    #[test]
    fn the_time_is_shown_where_the_command_is_too_long() {
        let lines = card().finished(EN, End::Done, "", 800, brief(26));
        assert_eq!(text(&lines), ["✓ exec  git stat…  (0.8 s)"]);
    }

    #[test]
    fn a_long_output_is_cut_and_says_how_much_is_missing() {
        let output = (1..=42).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        let lines = text(&card().finished(EN, End::Done, &output, 800, brief(60)));
        assert_eq!(lines[0], "✓ exec  git status --short  (0.8 s)");
        assert_eq!(
            lines[1..],
            ["  line 1", "  line 2", "  line 3", "  line 4", "  line 5", "  … 37 more lines (Ctrl+O)"]
        );
        let whole = card().finished(EN, End::Done, &output, 800, Look { width: 60, whole: true });
        assert_eq!((whole.len(), whole[42].text().as_str()), (43, "  line 42"));
        let six = (1..=6).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
        assert_eq!(
            card().finished(EN, End::Done, &six, 800, brief(60)).len(),
            7,
            "one more line is shown, not counted"
        );
    }

    #[test]
    fn of_a_change_the_lines_that_change_are_shown_and_not_where_they_are() {
        let diff = "edited a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n";
        let lines = card().finished(EN, End::Done, diff, 800, brief(60));
        assert_eq!(text(&lines)[1..], ["  edited a.txt", "   one", "  -two", "  +TWO", "   three"]);
        assert_eq!(lines[3].painted(true), "  \x1b[31m-two\x1b[0m");
        let plain = card().finished(EN, End::Done, "--- not a diff", 800, brief(60));
        assert_eq!(text(&plain)[1..], ["  --- not a diff"]);
    }

    #[test]
    fn a_failure_is_red_and_what_did_not_run_says_so() {
        let failed = card().finished(EN, End::Failed, "no such file", 100, brief(60));
        assert!(failed[0].painted(true).starts_with("\x1b[31m✗"), "{failed:?}");
        assert_eq!(failed[1].painted(true), "  \x1b[31mno such file\x1b[0m");
        let shadowed = card().finished(Language::Chinese, End::Shadowed, "", 100, brief(60));
        assert_eq!(text(&shadowed), ["○ exec  git status --short  (仅决定，未执行)"]);
    }

    #[test]
    fn times_are_said_as_people_say_them() {
        for (ms, words) in
            [(0, "0.0 s"), (840, "0.8 s"), (9_960, "10.0 s"), (12_345, "12 s"), (125_000, "2 min 05 s")]
        {
            assert_eq!(duration(EN, ms), words);
        }
    }

    #[test]
    fn the_output_that_is_kept_is_bounded() {
        let mut card = card();
        (0..1_000).for_each(|_| card.update("你好，世界 and more\n"));
        assert!(card.output.len() <= 2 * KEPT);
    }
}
