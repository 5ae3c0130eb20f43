//! The summary that needs no model: what was left out, and what was asked for.

use tidegate_protocol::Role;

use super::words::{clip, one_line};
use crate::context::Line;

/// Requests that are quoted, and characters of each.
const REQUESTS: usize = 6;
const REQUEST: usize = 200;

const WHY: &str = "(No model could sum up what follows here, so this only says what was left out. All of it is still in \
the log and can be searched.)";

/// Says what was left out, after what an earlier summary said. Never empty, never longer than `most` characters.
pub(super) fn summary(lines: &[Line], earlier: Option<&str>, most: usize) -> String {
    let requests: Vec<String> = lines
        .iter()
        .filter(|line| line.message.role() == Role::User)
        .map(|line| one_line(&line.message.text(), REQUEST))
        .filter(|request| !request.is_empty())
        .collect();
    let mut said = vec![
        WHY.to_owned(),
        format!("Left out: {} messages, {} of them the user's.", lines.len(), requests.len()),
    ];
    said.extend(requests.first().map(|first| format!("It began with: \"{first}\"")));
    let last = requests.get(1..).unwrap_or_default();
    let last = last.get(last.len().saturating_sub(REQUESTS)..).unwrap_or_default();
    if !last.is_empty() {
        said.push("The last requests, quoted:".to_owned());
    }
    said.extend(last.iter().map(|request| format!("- \"{request}\"")));
    let text = said.join("\n");
    let Some(earlier) = earlier.map(str::trim).filter(|earlier| !earlier.is_empty()) else {
        return clip(&text, most);
    };
    // What a model once wrote is worth more than what we can say, however often it comes to this.
    let earlier = clip(earlier, most / 2);
    clip(&format!("{earlier}\n\n{text}"), most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::tests::{answer, log, user};

    #[test]
    fn it_says_what_was_asked_for() {
        let mut messages = vec![user("Sort the\nphotos by year")];
        for n in 1..9 {
            messages.extend([answer("ok"), user(&format!("step {n}"))]);
        }
        let text = summary(&log(messages), None, 4_000);
        assert!(text.contains("Left out: 17 messages, 9 of them the user's."), "{text}");
        assert!(text.contains("It began with: \"Sort the photos by year\""), "{text}");
        assert!(!text.contains("\"step 2\"") && text.ends_with("- \"step 7\"\n- \"step 8\""), "{text}");
    }

    #[test]
    fn an_earlier_summary_outlives_every_mechanical_one() {
        let lines = log((0..30).map(|n| user(&format!("request {n} {}", "x".repeat(300)))).collect());
        let mut text = format!("## Goal\nthe lighthouse\n{}", "detail ".repeat(50));
        for _ in 0..10 {
            text = summary(&lines, Some(&text), 1_000);
            assert!(
                text.starts_with("## Goal\nthe lighthouse\n") && text.contains("Left out: 30 messages"),
                "{text}"
            );
            assert!(text.chars().count() <= 1_000);
        }
    }

    #[test]
    fn it_is_never_empty() {
        assert!(!summary(&[], None, 100).is_empty());
        assert!(!summary(&log(vec![user("")]), Some(" "), 1).is_empty());
    }
}
