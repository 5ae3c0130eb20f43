//! The last stage of the filter: `MEDIA:` lines, and the blanks around what was taken out.

use super::brackets::Mark;
use super::fences::CodeTracker;

const MEDIA: &str = "MEDIA:";
/// Characters of one path or address, at most.
const MOST_SOURCE: usize = 4096;
/// Bytes of a media line, at most: room for any one source. A longer line is text.
const MOST_LINE: usize = 4 * (MOST_SOURCE + 64);
/// Blanks in front of the word, at most.
const MOST_BLANKS: usize = 64;

/// Takes media lines out, and trims: no blanks at the start, none at the end, one where something is missing.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Paths and addresses, in the order they came. Whether they may be sent is not decided here.
    pub(super) media: Vec<String>,
    with_media: Kept,
    code: CodeTracker,
    /// A line that may become a media line, or is one.
    held: String,
    /// Blanks that are shown only if something follows.
    blanks: String,
    /// Something was taken out behind `blanks`.
    gap: bool,
    /// A media line was taken out behind `blanks`.
    after_media: bool,
    begun: bool,
}

/// What becomes of a line that names media.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// It is taken out.
    #[default]
    Out,
    /// It stays as it is.
    Whole,
}

impl Lines {
    pub(super) fn new(keeps_media: bool) -> Self {
        let with_media = if keeps_media { Kept::Whole } else { Kept::Out };
        Self { with_media, ..Self::default() }
    }

    pub(super) fn push(&mut self, mark: Mark, out: &mut String) {
        match mark {
            Mark::Gap if is_media(&self.held) => self.held.push(' '),
            Mark::Gap => {
                self.release(out);
                let kept = self.blanks.trim_end_matches([' ', '\t']).len();
                self.blanks.truncate(kept);
                self.gap = true;
            }
            Mark::Char('\n') if is_media(&self.held) => self.take_line("\n", out),
            Mark::Char('\n') => {
                self.release(out);
                self.say('\n', out);
            }
            Mark::Char(c) if !self.held.is_empty() || self.may_begin(c) => {
                self.held.push(c);
                if !may_be_media(&self.held) {
                    self.release(out);
                }
            }
            Mark::Char(c) => self.say(c, out),
        }
    }

    /// The text is over. Blanks at its end are dropped.
    pub(super) fn finish(&mut self, out: &mut String) {
        if is_media(&self.held) {
            self.take_line("", out);
        }
        self.release(out);
        self.blanks.clear();
    }

    fn may_begin(&self, c: char) -> bool {
        let fits = MEDIA.starts_with(c) || matches!(c, ' ' | '\t');
        fits && self.with_media == Kept::Out && self.code.at_line_start() && self.code.is_plain()
    }

    fn release(&mut self, out: &mut String) {
        for c in std::mem::take(&mut self.held).chars() {
            self.say(c, out);
        }
    }

    fn take_line(&mut self, end: &str, out: &mut String) {
        let line = std::mem::take(&mut self.held);
        let Sources { found, rest } = sources(line.trim_start().strip_prefix(MEDIA).unwrap_or_default());
        self.media.extend(found);
        self.after_media = rest.is_empty();
        if !rest.is_empty() {
            rest.chars().chain(end.chars()).for_each(|c| self.say(c, out));
        }
    }

    fn say(&mut self, c: char, out: &mut String) {
        self.code.push(c);
        if !c.is_whitespace() {
            if self.begun {
                if self.gap && !self.blanks.ends_with('\n') {
                    self.blanks.push(' ');
                }
                out.push_str(&self.blanks);
            }
            self.blanks.clear();
            (self.begun, self.gap, self.after_media) = (true, false, false);
            return out.push(c);
        }
        let is_swallowed = match c {
            // A line that is gone leaves one empty line where there were two.
            '\n' => !self.gap && self.after_media && self.blanks.ends_with("\n\n"),
            _ => self.gap,
        };
        self.gap &= c != '\n';
        if !is_swallowed {
            self.blanks.push(c);
        }
    }
}

fn is_media(held: &str) -> bool {
    held.trim_start().starts_with(MEDIA)
}

fn may_be_media(held: &str) -> bool {
    let word = held.trim_start();
    let most = if word.starts_with(MEDIA) { MOST_LINE } else { MOST_BLANKS };
    held.len() <= most && (word.starts_with(MEDIA) || MEDIA.starts_with(word))
}

/// What a media line names, and the words beside it that people should still read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sources {
    found: Vec<String>,
    rest: String,
}

/// Reads what stands behind `MEDIA:`. One word that is no source is dropped, prose is not.
fn sources(payload: &str) -> Sources {
    let payload = payload.trim();
    if let Some(quoted) = unquote(payload) {
        let found: Vec<_> = is_source(quoted).then(|| quoted.to_owned()).into_iter().collect();
        return Sources { found, rest: String::new() };
    }
    let (found, others): (Vec<&str>, Vec<&str>) =
        payload.split_whitespace().map(bare).partition(|word| is_source(word));
    match (found.as_slice(), others.as_slice()) {
        // A path with blanks in it.
        ([_], [_, ..]) if is_path(payload) && is_source(payload) => {
            Sources { found: vec![payload.to_owned()], rest: String::new() }
        }
        ([], [_]) => Sources::default(),
        ([], _) => Sources { found: Vec::new(), rest: format!("{MEDIA} {payload}").trim_end().to_owned() },
        _ => Sources { found: found.iter().map(ToString::to_string).collect(), rest: others.join(" ") },
    }
}

fn unquote(text: &str) -> Option<&str> {
    ['"', '\'', '`'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote)).map(str::trim)
}

/// A word without the brackets, quotes and commas that models put around it.
fn bare(word: &str) -> &str {
    word.trim_start_matches(['`', '"', '\'', '[', '(', '{'])
        .trim_end_matches(['`', '"', '\'', ']', ')', '}', ',', '\\'])
}

fn is_source(text: &str) -> bool {
    let is_address = ["http://", "https://"].iter().any(|scheme| {
        text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            && text.len() > scheme.len()
            && !text.contains(char::is_whitespace)
    });
    (is_address || is_path(text)) && text.chars().count() <= MOST_SOURCE
}

fn is_path(text: &str) -> bool {
    ["/", "./", "../", "~"].iter().any(|start| text.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of the text, where `_` stands for something taken out before.
    fn left(text: &str) -> (String, Vec<String>) {
        let mut lines = Lines::default();
        let mut out = String::new();
        for c in text.chars() {
            lines.push(if c == '_' { Mark::Gap } else { Mark::Char(c) }, &mut out);
        }
        lines.finish(&mut out);
        (out, lines.media)
    }

    #[test]
    fn media_lines_are_taken_out_with_their_line() {
        for (text, rest, media) in [
            ("MEDIA: /tmp/a.png", "", vec!["/tmp/a.png"]),
            ("a\nMEDIA:./a.png\nb", "a\nb", vec!["./a.png"]),
            ("a\n\n  MEDIA: https://x.y/a.png\n\nb", "a\n\nb", vec!["https://x.y/a.png"]),
            ("MEDIA: `~/my pictures/a.png`", "", vec!["~/my pictures/a.png"]),
            ("MEDIA: /my pictures/a.png", "", vec!["/my pictures/a.png"]),
            ("MEDIA: /a.png, /b.png", "", vec!["/a.png", "/b.png"]),
            ("MEDIA: HTTP://x/a.png a cat\nb", "a cat\nb", vec!["HTTP://x/a.png"]),
            ("MEDIA: notapath", "", vec![]),
            ("_ MEDIA: /a.ogg _\nb", "b", vec!["/a.ogg"]),
        ] {
            let media = media.into_iter().map(str::to_owned).collect();
            assert_eq!(left(text), (rest.to_owned(), media), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_media_line_stays() {
        for text in [
            "inline MEDIA: /x.png",
            "MEDIA: the press was there",
            "MEDIA:",
            "MED",
            "media: /a.png",
            "```\nMEDIA: /a.png\n```",
            "`a\nMEDIA: /a.png`",
        ] {
            assert_eq!(left(text), (text.to_owned(), vec![]), "{text:?}");
        }
    }

    #[test]
    fn a_source_has_a_longest() {
        let longest = format!("/{}", "é".repeat(MOST_SOURCE - 1));
        assert_eq!(left(&format!("MEDIA: {longest}")).1, std::slice::from_ref(&longest));
        assert_eq!(left(&format!("MEDIA: {longest}x\nb")), ("b".to_owned(), vec![]));
        let line = format!("MEDIA: {}\nb", "é ".repeat(MOST_LINE));
        assert_eq!(left(&line), (line.clone(), vec![]));
    }

    #[test]
    fn blanks_around_what_is_missing_are_one() {
        for (text, expected) in [
            (" pad ", "pad"),
            ("hi _", "hi"),
            ("_ hi", "hi"),
            ("a _ b _", "a b"),
            ("a_b", "a b"),
            ("a _ _\t b", "a b"),
            ("line1\n_\nline2", "line1\n\nline2"),
            ("a\n_ b", "a\nb"),
            ("a _\n    b", "a\n    b"),
            ("a  b\n\n\n c", "a  b\n\n\n c"),
        ] {
            assert_eq!(left(text).0, expected, "{text:?}");
        }
    }
}
