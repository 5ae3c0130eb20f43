//! Which answers count as a summary. A model that sums up may fail in any way but one: nobody is worse off for it.

use tidegate_protocol::{Block, Message, StopReason};

/// A summary of something short may have this many bytes all the same: its headings alone have some.
const SHORT: usize = 800;
/// Characters of one sample, and samples that are looked at.
const SAMPLE: usize = 32;
const SAMPLES: usize = 64;
/// Fewer samples say nothing.
const FEW_SAMPLES: usize = 8;

/// The text of a summary: said, not thought; shorter than what it sums up; and not a copy of it.
pub(super) fn summary_in(answer: &Message, source: usize, conversation: Option<&str>) -> Option<String> {
    let Message::Assistant { content, stop_reason, .. } = answer else { return None };
    if !matches!(stop_reason, StopReason::Stop | StopReason::Length) {
        return None;
    }
    if content.iter().any(|block| matches!(block, Block::ToolCall { .. })) {
        return None;
    }
    let text = answer.text().trim().to_owned();
    let says_something = text.chars().any(char::is_alphanumeric);
    let is_shorter = text.len() <= source.max(SHORT);
    (says_something && is_shorter && !conversation.is_some_and(|said| echoes(&text, said))).then_some(text)
}

/// Whether most of the text stands in the conversation word for word.
fn echoes(text: &str, conversation: &str) -> bool {
    let (text, conversation) = (spaced(text), spaced(conversation));
    let characters: Vec<char> = text.chars().collect();
    let all = characters.chunks_exact(SAMPLE);
    let step = all.len().div_ceil(SAMPLES).max(1);
    let samples: Vec<String> = all.step_by(step).map(|sample| sample.iter().collect()).collect();
    let found = samples.iter().filter(|sample| conversation.contains(sample.as_str())).count();
    samples.len() >= FEW_SAMPLES && found * 5 > samples.len() * 4
}

fn spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::tests::{answer, calling};

    fn counts(text: &str, source: &str) -> bool {
        summary_in(&answer(text), source.len(), Some(source)).is_some()
    }

    #[test]
    fn only_what_was_said_counts() {
        let source = "[User]\nhow high is the tide?\n".repeat(100);
        assert!(counts("## Goal\nthe tide", &source));
        assert!(!counts("", &source) && !counts(" \n\u{3000}\n", &source) && !counts("## \n---", &source));
        assert!(summary_in(&calling("c", "read", "{}"), source.len(), None).is_none());
        let thought = Block::Thinking { thinking: "hm".into(), thinking_signature: None, redacted: false };
        let thought = stopped(StopReason::Stop, thought);
        assert!(summary_in(&thought, source.len(), None).is_none());
        for reason in [StopReason::Error, StopReason::Aborted, StopReason::ToolUse] {
            assert!(
                summary_in(&stopped(reason, Block::text("words")), source.len(), None).is_none(),
                "{reason:?}"
            );
        }
        assert!(summary_in(&stopped(StopReason::Length, Block::text("words")), source.len(), None).is_some());
    }

    fn stopped(stop_reason: StopReason, block: Block) -> Message {
        let Message::Assistant { origin, usage, error_message, timestamp, .. } = answer("words") else {
            panic!("an answer is an answer");
        };
        Message::Assistant { content: vec![block], origin, usage, stop_reason, error_message, timestamp }
    }

    #[test]
    fn what_is_longer_than_its_subject_is_no_summary() {
        let source = "the tide is high at seven. ".repeat(60);
        assert!(!counts(&"entirely new words about nothing ".repeat(60), &source));
        assert!(counts(&"a few new words ".repeat(40), "short"));
    }

    #[test]
    fn a_copy_of_the_conversation_is_no_summary() {
        let joined = |lines: Vec<String>| lines.join("\n");
        let source =
            joined((0..200).map(|n| format!("[User]\nquestion {n} about harbour {}", n * 7)).collect());
        let copy = joined(source.lines().take(150).map(|line| format!("{line}  ")).collect());
        assert!(!counts(&copy, &source));
        let point =
            |n| format!("- point {n}: the user wanted to know something; \"question {n} about harbour\"");
        let quoting = joined((0..40).map(point).collect());
        assert!(counts(&quoting, &source));
    }
}
