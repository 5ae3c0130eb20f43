//! The words by which a model says that there is nothing to say.

/// The answer that is not sent.
pub const NO_REPLY: &str = "NO_REPLY";
/// The answer to a heartbeat when nothing needs attention. In any other answer it is a word like others.
pub const HEARTBEAT_OK: &str = "HEARTBEAT_OK";

/// What an answer says: its text without `NO_REPLY` at either end. Nothing is left of one that is silent.
pub fn spoken(text: &str) -> &str {
    if is_only_the_token(text) {
        return "";
    }
    without_leading(without_trailing(text, None))
}

/// Whether the text is `NO_REPLY` and nothing else that says anything.
pub fn is_silent(text: &str) -> bool {
    !text.trim().is_empty() && spoken(text).trim().is_empty()
}

/// Whether a text that has only begun may turn out to be silent, so that nobody should see it yet.
pub(super) fn may_turn_silent(beginning: &str) -> bool {
    NO_REPLY.starts_with(bare(beginning)) || spoken(beginning).is_empty()
}

/// How much of a text that goes on is certain to be shown, unless it begins with the token. `before` is the character
/// in front of it.
pub(super) fn certain(text: &str, before: Option<char>) -> usize {
    let mut rest = without_begun(text, before);
    while let Some(less) = without_token_at_end(rest, before) {
        rest = less;
    }
    rest.trim_end_matches(|c| c == '`' || is_wrapping(c)).len()
}

/// Without the tokens that end a text, and whatever was wrapped around them.
pub(super) fn without_trailing(text: &str, before: Option<char>) -> &str {
    let mut rest = text;
    while let Some(less) = without_token_at_end(rest, before) {
        let behind = rest.get(less.len() + NO_REPLY.len()..).unwrap_or_default();
        let is_wrapped = behind.starts_with(is_emphasis);
        rest = less.trim_end_matches(|c| is_wrapped && is_emphasis(c)).trim_end();
    }
    rest
}

/// Without the tokens that begin a text, and whatever sticks to them.
pub(super) fn without_leading(text: &str) -> &str {
    let mut rest = text;
    while let Some(less) = without_start(rest.trim_start_matches(is_wrapping), NO_REPLY) {
        // `_` belongs to the word behind it, which would be another one without it.
        let sticks = |c: char| !c.is_alphanumeric() && c != '_' && !c.is_whitespace();
        rest = less.trim_start_matches(sticks).trim_start();
    }
    rest
}

/// What is left in front of a token at the end. One in code beside words is what the words are about.
fn without_token_at_end(text: &str, before: Option<char>) -> Option<&str> {
    let text = text.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_' && c != '`');
    without_end(text, NO_REPLY).filter(|rest| !rest.is_empty() || !before.is_some_and(is_word))
}

/// The text without the beginning of a token at its end.
fn without_begun(text: &str, before: Option<char>) -> &str {
    let begun = (1..NO_REPLY.len()).rev().filter_map(|length| NO_REPLY.get(..length));
    let mut rests = begun.filter_map(|begun| without_end(text, begun));
    rests.find(|rest| !rest.is_empty() || !before.is_some_and(is_word)).unwrap_or(text)
}

fn is_only_the_token(text: &str) -> bool {
    bare(text) == NO_REPLY
}

/// The text without everything at its ends that says nothing.
fn bare(text: &str) -> &str {
    text.trim_matches(|c: char| !c.is_alphanumeric() && c != '_')
}

fn is_emphasis(c: char) -> bool {
    matches!(c, '*' | '~')
}

fn is_wrapping(c: char) -> bool {
    c.is_whitespace() || is_emphasis(c)
}

/// Word characters as upstream knows them: those of ASCII.
fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn without_start<'t>(text: &'t str, token: &str) -> Option<&'t str> {
    text.strip_prefix(token).filter(|rest| !rest.starts_with(is_word))
}

fn without_end<'t>(text: &'t str, token: &str) -> Option<&'t str> {
    text.strip_suffix(token).filter(|rest| !rest.ends_with(is_word))
}

/// What an answer with `HEARTBEAT_OK` in it is the answer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatMode {
    /// A heartbeat: up to so many characters beside the token are an acknowledgement and not sent.
    Heartbeat { most_characters: usize },
    /// A person: whatever stands beside the token is sent.
    Message,
}

impl HeartbeatMode {
    /// A heartbeat with the usual length of an acknowledgement.
    pub const HEARTBEAT: Self = Self::Heartbeat { most_characters: 300 };
}

/// An answer without `HEARTBEAT_OK`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripped {
    /// There is nothing to send.
    pub skip: bool,
    /// What is to be sent. Blanks are one each if the token was there.
    pub text: String,
    /// Whether the token was there.
    pub found: bool,
}

/// Takes the token away at both ends, also where Markdown or HTML is wrapped around it.
pub fn strip_heartbeat(text: &str, mode: HeartbeatMode) -> Stripped {
    let text = text.trim();
    let bare = without_token(text).filter(|rest| !rest.is_empty());
    let Some(rest) = bare.or_else(|| without_token(&without_markup(text))) else {
        return Stripped { skip: text.is_empty(), text: text.to_owned(), found: false };
    };
    let most = match mode {
        HeartbeatMode::Heartbeat { most_characters } => most_characters,
        HeartbeatMode::Message => 0,
    };
    let skip = rest.chars().count() <= most;
    Stripped { skip, text: if skip { String::new() } else { rest }, found: true }
}

/// What is left, blanks collapsed, if there was a token at an end.
fn without_token(text: &str) -> Option<String> {
    let mut rest = text.trim();
    let mut found = false;
    while let Some(less) = without_start(rest, HEARTBEAT_OK).or_else(|| without_end(rest, HEARTBEAT_OK)) {
        rest = less.trim();
        found = true;
    }
    found.then(|| rest.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn without_markup(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        out.push_str(before);
        let Some((_, after)) = tag.split_once('>') else {
            out.push('<');
            rest = tag;
            break;
        };
        out.push(' ');
        rest = after;
    }
    out.push_str(rest);
    let is_mark = |c: char| matches!(c, '*' | '`' | '~' | '_');
    out.replace("&nbsp;", " ").trim().trim_matches(is_mark).to_owned()
}

/// Whether a heartbeat file asks for nothing: blank lines, headings and empty list items only.
pub fn heartbeat_file_is_empty(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || is_heading(line) || is_empty_item(line))
}

fn is_heading(line: &str) -> bool {
    let rest = line.trim_start_matches('#');
    rest.len() < line.len() && (rest.is_empty() || rest.starts_with(char::is_whitespace))
}

fn is_empty_item(line: &str) -> bool {
    line.strip_prefix(['-', '*', '+'])
        .is_some_and(|item| matches!(item.trim(), "" | "[]" | "[ ]" | "[x]" | "[X]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_only_the_token_is_silence() {
        for text in
            ["NO_REPLY", "NO_REPLY.", "\n NO_REPLY\n", "**NO_REPLY**", "`NO_REPLY`", "NO_REPLY NO_REPLY"]
        {
            assert!(is_silent(text) && spoken(text).is_empty(), "{text:?}");
        }
        for text in
            ["no_reply", "", "NO_REPLYING", "say NO_REPLY to it", "XNO_REPLY", "1_NO_REPLY", "NO_REPLY 好"]
        {
            assert!(!is_silent(text), "{text:?}");
        }
    }

    #[test]
    fn words_beside_the_token_are_kept_without_it() {
        for (text, said) in [
            ("Finished. NO_REPLY", "Finished."),
            ("sure NO_REPLY!!", "sure"),
            ("NO_REPLY ok then", "ok then"),
            ("NO_REPLY. Or so.", "Or so."),
            ("NO_REPLY\n- one\n- two", "- one\n- two"),
            ("**Done.**\n\n**NO_REPLY**", "**Done.**"),
            ("好的 NO_REPLY。", "好的"),
            ("NO_REPLY a NO_REPLY", "a"),
            ("say NO_REPLY to it", "say NO_REPLY to it"),
            ("an agent answers `NO_REPLY`", "an agent answers `NO_REPLY`"),
            ("MY_NO_REPLY", "MY_NO_REPLY"),
            ("NO_REPLY*_NO_REPLY", "_NO_REPLY"),
            ("NO_REPLY: _so_", "_so_"),
            ("HEARTBEAT_OK", "HEARTBEAT_OK"),
        ] {
            assert_eq!(spoken(text), said, "{text:?}");
        }
    }

    #[test]
    fn a_beginning_that_may_be_silence_is_known() {
        for text in ["", " NO", "NO_REPLY", "**NO_", "NO_REPLY."] {
            assert!(may_turn_silent(text), "{text:?}");
        }
        for text in ["No", "NO_REPLY x", "Hello", "HEART"] {
            assert!(!may_turn_silent(text), "{text:?}");
        }
    }

    #[test]
    fn an_acknowledged_heartbeat_is_not_sent() {
        let skip = Stripped { skip: true, text: String::new(), found: true };
        for text in
            ["HEARTBEAT_OK", "<b>HEARTBEAT_OK</b>", "HEARTBEAT_OK HEARTBEAT_OK", "**HEARTBEAT_OK**&nbsp;"]
        {
            assert_eq!(strip_heartbeat(text, HeartbeatMode::HEARTBEAT), skip, "{text:?}");
            assert_eq!(strip_heartbeat(text, HeartbeatMode::Message), skip, "{text:?}");
        }
        assert_eq!(strip_heartbeat("all  good\nHEARTBEAT_OK", HeartbeatMode::HEARTBEAT), skip);
    }

    #[test]
    fn what_matters_is_sent_without_the_token() {
        let sent = |text: &str| Stripped { skip: false, text: text.to_owned(), found: true };
        assert_eq!(strip_heartbeat("all  good\nHEARTBEAT_OK", HeartbeatMode::Message), sent("all good"));
        let long = "x".repeat(301);
        for mode in [HeartbeatMode::HEARTBEAT, HeartbeatMode::Message] {
            assert_eq!(strip_heartbeat(&format!("HEARTBEAT_OK {long}"), mode), sent(&long));
        }
        let fits = format!("{} HEARTBEAT_OK", "é".repeat(300));
        assert!(strip_heartbeat(&fits, HeartbeatMode::HEARTBEAT).skip);
    }

    #[test]
    fn a_text_without_the_token_at_an_end_is_left_as_it_is() {
        for text in ["disk  full\nnow", "I answer HEARTBEAT_OK when well", "HEARTBEAT_OKAY", "a < b"] {
            let expected = Stripped { skip: false, text: text.to_owned(), found: false };
            assert_eq!(strip_heartbeat(text, HeartbeatMode::HEARTBEAT), expected);
        }
        assert!(strip_heartbeat(" ", HeartbeatMode::HEARTBEAT).skip);
    }

    #[test]
    fn a_heartbeat_file_without_tasks_is_empty() {
        for text in ["", "## Title\n- [x]\n", "#\n\n* \n+ [ ]\n-"] {
            assert!(heartbeat_file_is_empty(text), "{text:?}");
        }
        for text in ["- [ ] do it", "#tag", "look at the mail", "-[y]"] {
            assert!(!heartbeat_file_is_empty(text), "{text:?}");
        }
    }
}
