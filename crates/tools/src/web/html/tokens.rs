//! HTML as a row of tags and texts: what browsers skip is skipped, and nothing is ever a failure.
//!
//! There is no tree. A page may be nested a million deep, torn anywhere or not be HTML at all; reading it takes one
//! pass and no memory of its own.

use super::entities;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// As it stands there, entities and all.
    Text(&'a str),
    Open(Tag<'a>),
    /// The name in lower case.
    Close(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// In lower case.
    pub(super) name: String,
    attributes: &'a str,
    pub(super) self_closing: bool,
}

/// Elements whose content is text whatever it looks like.
const RAW: [&str; 7] = ["script", "style", "textarea", "title", "xmp", "noembed", "noframes"];
/// Attributes of a tag that are looked at.
const MOST_ATTRIBUTES: usize = 50;

pub(super) struct Tokens<'a> {
    rest: &'a str,
    /// The raw element we are in.
    raw: Option<&'static str>,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(html: &'a str) -> Self {
        Self { rest: html, raw: None }
    }

    /// Everything up to the end of the raw element, or to the end.
    fn raw_text(&mut self, name: &str) -> Option<Token<'a>> {
        let end = find_close(self.rest, name).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!text.is_empty()).then_some(Token::Text(text))
    }

    fn skip_past(&mut self, end: &str) {
        self.rest = self.rest.find(end).map_or("", |at| &self.rest[at + end.len()..]);
    }

    /// Reads a tag whose name begins at this byte. A tag that does not end is nothing.
    fn tag(&mut self, from: usize) -> Option<(String, &'a str, bool)> {
        let body = &self.rest[from..];
        let name_end =
            body.find(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>')).unwrap_or(body.len());
        let Some(end) = tag_end(&body[name_end..]).map(|end| name_end + end) else {
            self.rest = "";
            return None;
        };
        self.rest = &body[end + 1..];
        let attributes = &body[name_end..end];
        let self_closing = attributes.trim_end().ends_with('/');
        Some((body[..name_end].to_ascii_lowercase(), attributes, self_closing))
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        if let Some(name) = self.raw.take()
            && let Some(text) = self.raw_text(name)
        {
            return Some(text);
        }
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let bytes = self.rest.as_bytes();
            match bytes {
                [b'<', b'!', b'-', b'-', ..] => {
                    // `<!-->` is a whole comment.
                    self.rest = &self.rest[2..];
                    if self.rest.starts_with("-->") || self.rest.starts_with("--->") {
                        self.skip_past(">");
                    } else {
                        self.rest = &self.rest[2..];
                        self.skip_past("-->");
                    }
                }
                [b'<', b'!' | b'?', ..] => self.skip_past(">"),
                [b'<', b'/', first, ..] if first.is_ascii_alphabetic() => {
                    let (name, ..) = self.tag(2)?;
                    return Some(Token::Close(name));
                }
                [b'<', first, ..] if first.is_ascii_alphabetic() => {
                    let (name, attributes, self_closing) = self.tag(1)?;
                    self.raw = RAW.into_iter().find(|raw| *raw == name);
                    return Some(Token::Open(Tag { name, attributes, self_closing }));
                }
                _ => {
                    // A `<` that begins nothing is text.
                    let next = bytes[1..].iter().position(|byte| *byte == b'<');
                    let (text, rest) = self.rest.split_at(next.map_or(bytes.len(), |at| at + 1));
                    self.rest = rest;
                    return Some(Token::Text(text));
                }
            }
        }
    }
}

/// Where `</name` begins.
fn find_close(text: &str, name: &str) -> Option<usize> {
    text.match_indices("</").map(|(at, _)| at).find(|at| {
        let rest = &text.as_bytes()[at + 2..];
        rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
            && rest.get(name.len()).is_none_or(|next| !next.is_ascii_alphanumeric())
    })
}

/// Where the `>` of a tag is, outside of quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut before = b' ';
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) if open == byte => quote = None,
            (None, b'>') => return Some(at),
            // A quote that does not stand where a value begins is a letter like others.
            (None, b'"' | b'\'') if before == b'=' => quote = Some(byte),
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
    }
    None
}

impl Tag<'_> {
    /// An attribute's value, its entities decoded; empty when it has none.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        let mut rest = self.attributes;
        for _ in 0..MOST_ATTRIBUTES {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
            if rest.is_empty() {
                return None;
            }
            let end =
                rest.find(|c: char| c.is_ascii_whitespace() || matches!(c, '=' | '/')).unwrap_or(rest.len());
            // A stray `=` is a name of its own.
            let end = end.max(rest.chars().next().map_or(0, char::len_utf8));
            let (found, after) = rest.split_at(end);
            let (value, after) = match after.trim_start().strip_prefix('=') {
                Some(after) => value(after.trim_start()),
                None => ("", after),
            };
            if found.eq_ignore_ascii_case(name) {
                return Some(entities::decode(value));
            }
            rest = after;
        }
        None
    }
}

/// A value and what follows it.
fn value(text: &str) -> (&str, &str) {
    for quote in ['"', '\''] {
        if let Some(inside) = text.strip_prefix(quote) {
            return inside.split_once(quote).unwrap_or((inside, ""));
        }
    }
    text.split_at(text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(html: &str) -> Vec<String> {
        let shown = |token| match token {
            Token::Text(text) => text.to_owned(),
            Token::Open(tag) => format!("<{}>", tag.name),
            Token::Close(name) => format!("</{name}>"),
        };
        Tokens::of(html).map(shown).collect()
    }

    #[test]
    fn tags_and_texts_come_in_their_order() {
        for (html, expected) in [
            ("a<B>c</b >d", &["a", "<b>", "c", "</b>", "d"][..]),
            ("<!doctype html><?xml x?><!-- a > b --><p>x", &["<p>", "x"]),
            ("<!-->a<!--->b<!-- c", &["a", "b"]),
            ("1 < 2 <3 << <p>", &["1 ", "< 2 ", "<3 ", "<", "< ", "<p>"]),
            ("<a href='x>y' title=\"<b>\">z", &["<a>", "z"]),
            ("<a href=it's>z</a>", &["<a>", "z", "</a>"]),
            ("<script>if (a<b) '</p>'</SCRIPT >x", &["<script>", "if (a<b) '</p>'", "</script>", "x"]),
            ("<title>a <b>&amp;</title>", &["<title>", "a <b>&amp;", "</title>"]),
            ("<style>never ended <p>", &["<style>", "never ended <p>"]),
            ("text<p class=\"torn", &["text"]),
            ("<é>", &["<é>"]),
            ("", &[]),
        ] {
            assert_eq!(seen(html), expected, "{html}");
        }
    }

    #[test]
    fn attributes_are_found_however_they_are_written() {
        let html = "<a ID=x  href = \"/a?b=1&amp;c=2\" checked title='it \"is\"' =odd data-x=y/z>";
        let Some(Token::Open(tag)) = Tokens::of(html).next() else { panic!("a tag") };
        for (name, expected) in [
            ("id", Some("x")),
            ("href", Some("/a?b=1&c=2")),
            ("checked", Some("")),
            ("title", Some("it \"is\"")),
            ("data-x", Some("y/z")),
            ("b", None),
        ] {
            assert_eq!(tag.attribute(name).as_deref(), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_to_its_end(html in "(<|>|/|!|--|[a-z ='\"é]|script|&amp;){0,60}") {
            for token in Tokens::of(&html) {
                if let Token::Open(tag) = token {
                    let _ = tag.attribute("href");
                }
            }
        }
    }
}
