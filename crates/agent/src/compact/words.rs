//! Short forms of texts. Cuts fall between characters, and what was cut says so.

/// Stands where something was left out.
const CUT: &str = "… [cut]";
/// How the text of a fence from outside begins and ends; the tools that reach out write them.
const OPENS: &str = "[outside ";
const CLOSES: &str = "[end of outside ";

/// At most so many characters.
pub(super) fn clip(text: &str, most: usize) -> String {
    if text.chars().nth(most).is_none() {
        return text.to_owned();
    }
    let mark = CUT.chars().count();
    if most <= mark {
        return text.chars().take(most).collect();
    }
    text.chars().take(most - mark).chain(CUT.chars()).collect()
}

/// What is added at most to close fences that were cut open.
pub(super) const CLOSING: usize = 2 * (32 + 18);

/// At most so many characters, and what closes the outermost fences that were cut open: text from outside stays inside.
pub(super) fn clip_fenced(text: &str, most: usize) -> String {
    let mut short = clip(text, most);
    if short.len() == text.len() {
        return short;
    }
    let marks = short.split(OPENS).skip(1).filter_map(|rest| rest.split_once(']')).map(|(mark, _)| mark);
    let open: Vec<String> = marks
        .filter(|mark| mark.chars().count() <= 32)
        .map(|mark| format!("\n{CLOSES}{mark}]"))
        .filter(|end| !short.contains(end.as_str()))
        .take(2)
        .collect();
    for end in open.iter().rev() {
        short.push_str(end);
    }
    short
}

/// The beginning of a text in one line, without what only machines see.
pub(super) fn one_line(text: &str, most: usize) -> String {
    let (text, outside) = match text.split_once(OPENS).and_then(|(_, rest)| rest.split_once("]\n")) {
        Some((_, inside)) => (inside.split(CLOSES).next().unwrap_or(inside), "(from outside) "),
        None => (text, ""),
    };
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let line = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    clip(&format!("{outside}{line}"), most)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_from_outside_stays_inside_its_fence() {
        let text = format!("From x.\n[outside 00ff]\n{}\n[end of outside 00ff]", "evil ".repeat(100));
        let short = clip_fenced(&text, 60);
        assert!(short.ends_with("[cut]\n[end of outside 00ff]"), "{short}");
        assert_eq!(clip_fenced(&text, 9_000), text);
        assert_eq!(one_line(&text, 24), "(from outside) ev… [cut]");
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line(" a\n\tb\u{1b}c  d\r\n", 100), "a b c d");
        assert_eq!(one_line("海".repeat(20).as_str(), 10), "海海海… [cut]");
    }

    proptest! {
        #[test]
        fn a_clipped_text_is_a_beginning_within_its_bound(text in "\\PC{0,80}", most in 0_usize..60) {
            let short = clip(&text, most);
            prop_assert!(short.chars().count() <= most);
            prop_assert!(text.starts_with(short.strip_suffix(CUT).unwrap_or(&short)));
        }
    }
}
