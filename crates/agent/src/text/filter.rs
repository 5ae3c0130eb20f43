//! The filter between a model's stream and people: four stages, one character at a time.

use super::brackets::{Brackets, Directives, Mark};
use super::lines::Lines;
use super::silence::Silence;
use super::tags::{Spoken, Tags};

/// How a model's text is to be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilterOptions {
    /// Only what stands in `<final>` is for people. Some models are told to write it, and think aloud before.
    pub enforce_final: bool,
    /// Lines that name media stay in the text: for those who cannot send any.
    pub keeps_media: bool,
}

/// A part of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Visible(String),
    Thought(String),
}

/// A whole text, taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// What people see and the transcript keeps.
    pub visible: String,
    pub thought: String,
    pub directives: Directives,
    /// Paths and addresses of `MEDIA:` lines. Whoever sends them decides whether they may be sent.
    pub media: Vec<String>,
}

/// Takes one text of a stream apart while it comes. However its deltas are cut, the pieces joined are the
/// same.
#[derive(Debug, Default)]
pub struct StreamFilter {
    tags: Tags,
    brackets: Brackets,
    lines: Lines,
    silence: Silence,
    /// Between the stages; kept to be used again.
    spoken: Vec<Spoken>,
    marks: Vec<Mark>,
}

impl StreamFilter {
    pub fn new(options: FilterOptions) -> Self {
        let lines = Lines::new(options.keeps_media);
        Self { tags: Tags::new(options.enforce_final), lines, ..Self::default() }
    }

    /// Takes a delta, returns what is certain. What may still become a tag waits for the next one.
    pub fn push(&mut self, delta: &str) -> Vec<Piece> {
        for c in delta.chars() {
            self.tags.push(c, &mut self.spoken);
        }
        let mut pieces = Vec::new();
        self.hand_on(&mut pieces);
        pieces
    }

    /// The text is over: returns what was held back. Another text wants another filter.
    pub fn finish(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        self.tags.finish(&mut self.spoken);
        self.hand_on(&mut pieces);
        self.brackets.finish(&mut self.marks);
        let mut visible = String::new();
        self.write(&mut visible);
        self.lines.finish(&mut visible);
        add_visible(&mut pieces, &self.silence.push(&visible));
        add_visible(&mut pieces, &self.silence.finish());
        pieces
    }

    /// The directives so far.
    pub fn directives(&self) -> &Directives {
        &self.brackets.directives
    }

    /// The media so far.
    pub fn media(&self) -> &[String] {
        &self.lines.media
    }

    fn hand_on(&mut self, pieces: &mut Vec<Piece>) {
        let mut spoken = std::mem::take(&mut self.spoken);
        let mut visible = String::new();
        for part in spoken.drain(..) {
            match part {
                Spoken::Visible(c) => {
                    self.brackets.push(c, &mut self.marks);
                    self.write(&mut visible);
                }
                Spoken::Thought(c) => {
                    add_visible(pieces, &self.silence.push(&visible));
                    visible.clear();
                    match pieces.last_mut() {
                        Some(Piece::Thought(text)) => text.push(c),
                        _ => pieces.push(Piece::Thought(c.to_string())),
                    }
                }
            }
        }
        add_visible(pieces, &self.silence.push(&visible));
        self.spoken = spoken;
    }

    fn write(&mut self, visible: &mut String) {
        for mark in self.marks.drain(..) {
            self.lines.push(mark, visible);
        }
    }
}

fn add_visible(pieces: &mut Vec<Piece>, text: &str) {
    if text.is_empty() {
        return;
    }
    match pieces.last_mut() {
        Some(Piece::Visible(visible)) => visible.push_str(text),
        _ => pieces.push(Piece::Visible(text.to_owned())),
    }
}

/// The whole text at once: what a filter fed with it in any portions would give.
pub fn clean(text: &str, options: FilterOptions) -> Cleaned {
    let mut filter = StreamFilter::new(options);
    let mut cleaned = Cleaned::default();
    for piece in filter.push(text).into_iter().chain(filter.finish()) {
        match piece {
            Piece::Visible(text) => cleaned.visible.push_str(&text),
            Piece::Thought(text) => cleaned.thought.push_str(&text),
        }
    }
    cleaned.directives = filter.brackets.directives;
    cleaned.media = filter.lines.media;
    cleaned
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn visible(text: &str) -> String {
        clean(text, FilterOptions::default()).visible
    }

    /// The recorded cases of texts with thoughts.
    #[test]
    fn thoughts_are_stripped_as_upstream_strips_them() {
        assert_eq!(visible("<think>a</think>b"), "b");
        assert_eq!(visible("x</think>y"), "xy");
        assert_eq!(visible("<final>ok</final>"), "ok");
        // Upstream's stripper of whole texts, unlike its stream filter, takes a tag in code for a tag. It
        // answers "`", and people who ask about tags read half an answer.
        assert_eq!(visible("`<think>` kept?"), "`<think>` kept?");
    }

    /// The recorded cases of texts with directives.
    #[test]
    fn directives_are_taken_as_upstream_takes_them() {
        for (text, left, target) in [
            ("hi", "hi", None),
            ("hi [[reply_to_current]]", "hi", Some("m1")),
            ("[[reply_to:1]] [[reply_to:2]] x", "x", Some("2")),
            ("a [[unknown]] b", "a [[unknown]] b", None),
            ("[[ Reply_To : abc def ]] yo", "yo", Some("abc def")),
            ("[[reply_to_current]] [[reply_to:9]] x", "x", Some("9")),
            ("[[reply_to: ]] x", "x", None),
            ("line1\n[[reply_to_current]]\nline2", "line1\n\nline2", Some("m1")),
            ("[[reply_to:a]b]] x", "[[reply_to:a]b]] x", None),
            ("[[audio_as_voice]] hi", "hi", None),
            ("a [[audio_as_voice]] b [[audio_as_voice]]", "a b", None),
            ("[[audio]] x", "[[audio]] x", None),
            (" pad ", "pad", None),
            // Upstream honours a tag in code, and its notes call that a defect.
            ("`[[reply_to:7]]`", "`[[reply_to:7]]`", None),
        ] {
            let cleaned = clean(text, FilterOptions::default());
            assert_eq!(cleaned.visible, left, "{text:?}");
            assert_eq!(cleaned.directives.target(Some("m1")), target, "{text:?}");
            assert_eq!(cleaned.directives.audio_as_voice, text.contains("[[audio_as_voice]]"), "{text:?}");
        }
    }

    #[test]
    fn media_lines_stay_for_those_who_cannot_send_any() {
        let options = FilterOptions { keeps_media: true, ..FilterOptions::default() };
        let text = "Here it is:\nMEDIA: ./chart.png\nlook at it";
        assert_eq!(clean(text, options).visible, text);
    }

    /// The recorded cases of texts with media.
    #[test]
    fn media_lines_are_taken_as_upstream_takes_them() {
        for (text, left, media) in [
            ("MEDIA: /tmp/a.png", "", vec!["/tmp/a.png"]),
            ("inline MEDIA: /x.png", "inline MEDIA: /x.png", vec![]),
            ("MEDIA: notapath", "", vec![]),
        ] {
            let cleaned = clean(text, FilterOptions::default());
            assert_eq!(
                (cleaned.visible.as_str(), cleaned.media),
                (left, media.iter().map(ToString::to_string).collect())
            );
        }
    }

    #[test]
    fn the_stages_work_together() {
        let text = "<think>Which one?</think>\n\n[[reply_to_current]] <final>Here it is:\n\nMEDIA: /a.png\n\n\
                    ```html\n<think>[[audio_as_voice]]\nMEDIA: /b.png\n```\n[Tool Call: exec (ID: 1)]\n\
                    Arguments: {\"a\": 1}\nDone.</final>\n";
        let cleaned = clean(text, FilterOptions::default());
        let expected = Cleaned {
            visible: "Here it is:\n\n```html\n<think>[[audio_as_voice]]\nMEDIA: /b.png\n```\n\nDone."
                .to_owned(),
            thought: "Which one?".to_owned(),
            directives: Directives { reply_to_current: true, has_reply_tag: true, ..Directives::default() },
            media: vec!["/a.png".to_owned()],
        };
        assert_eq!(cleaned, expected);
    }

    #[test]
    fn an_answer_that_is_silent_is_one_piece_and_words_beside_the_token_lose_it() {
        let mut filter = StreamFilter::new(FilterOptions::default());
        assert_eq!(filter.push("<think>hm</think>NO_"), [Piece::Thought("hm".to_owned())]);
        assert_eq!(filter.push("REPLY"), []);
        assert_eq!(filter.finish(), [Piece::Visible("NO_REPLY".to_owned())]);
        assert_eq!(visible("[[reply_to_current]] Finished.\n\nNO_REPLY\n"), "Finished.");
    }

    #[test]
    fn only_what_may_become_a_tag_is_held_back() {
        let mut filter = StreamFilter::new(FilterOptions::default());
        let mut say = |delta: &str| filter.push(delta);
        let seen = |text: &str| vec![Piece::Visible(text.to_owned())];
        assert_eq!(say("Hello"), seen("Hello"));
        assert_eq!(say(" a <"), seen(" a"));
        assert_eq!(say(" b N"), seen(" < b"));
        assert_eq!(say("o"), seen(" No"));
        assert_eq!(say("<thin"), []);
        assert_eq!(say("k>no"), [Piece::Thought("no".to_owned())]);
        assert_eq!(say("</think>[x"), seen("[x"));
        assert_eq!(say("][[re"), seen("]"));
        assert_eq!(say("d]]\nME"), seen("[[red]]"));
        assert_eq!(say("TA"), seen("\nMETA"));
        assert_eq!(say(" [[reply_to"), []);
        assert_eq!(filter.finish(), seen(" [[reply_to"));
    }

    fn any_text() -> impl Strategy<Value = String> {
        let parts = vec![
            "<think>",
            "</think>",
            "< / THINK >",
            "<thought a='b'>",
            "<final>",
            "</final>",
            "<",
            ">",
            "/",
            "<th",
            "ink>",
            "`",
            "``",
            "```",
            "```js\n",
            "~~~\n",
            "\n",
            "\n\n",
            " ",
            "\t",
            "a",
            "word",
            "é",
            "界",
            "🎉",
            "\r\n",
            "[[reply_to_current]]",
            "[[reply_to: 7 ]]",
            "[[audio_as_voice]]",
            "[[",
            "]]",
            "[",
            "]",
            "reply_to:",
            "MEDIA: /a.png",
            "\nMEDIA: ",
            "MED",
            "https://x/y",
            "[Tool Call: x (ID: 1)]",
            "\nArguments: ",
            "{\"a\": \"}\"}",
            "\"",
            "{",
            "}",
            "\\",
            "[Tool Result for ID 1]",
            "<invoke name=\"x\">",
            "</invoke>",
            "</minimax:tool_call>",
            "NO_REPLY",
            "NO_",
        ];
        prop::collection::vec(prop::sample::select(parts), 0..40).prop_map(|parts| parts.concat())
    }

    fn streamed(text: &str, enforce_final: bool, sizes: &[usize]) -> Cleaned {
        let mut filter = StreamFilter::new(FilterOptions { enforce_final, ..FilterOptions::default() });
        let mut cleaned = Cleaned::default();
        let mut take = |pieces: Vec<Piece>| {
            for piece in pieces {
                match piece {
                    Piece::Visible(text) => cleaned.visible += &text,
                    Piece::Thought(text) => cleaned.thought += &text,
                }
            }
        };
        let mut characters = text.chars().peekable();
        let mut sizes = sizes.iter().cycle();
        while characters.peek().is_some() {
            let size = sizes.next().copied().unwrap_or(1);
            take(filter.push(&characters.by_ref().take(size).collect::<String>()));
        }
        take(filter.finish());
        cleaned.directives = filter.directives().clone();
        cleaned.media = filter.media().to_vec();
        cleaned
    }

    proptest! {
        #[test]
        fn what_is_visible_does_not_depend_on_where_deltas_split(
            text in any_text(), enforce_final: bool, sizes in prop::collection::vec(1..9usize, 1..6)
        ) {
            let whole = clean(&text, FilterOptions { enforce_final, ..FilterOptions::default() });
            prop_assert_eq!(streamed(&text, enforce_final, &sizes), whole);
        }

        #[test]
        fn a_text_without_tags_is_visible_as_it_is(text in "[^<\\[M]{0,80}") {
            prop_assert_eq!(visible(&text), text.trim());
        }

        #[test]
        fn a_thought_never_shows(
            before in "[a-z \n`]{0,20}", thought in "[^<]{1,40}", after in "[a-z \n`]{0,20}",
            deltas in 1..5usize
        ) {
            let text = format!("{before}\n\n<think>{thought}</think>{after}");
            // In a fence it would be no thought.
            prop_assume!(!before.contains("```"));
            let cleaned = streamed(&text, false, &[deltas]);
            let rest = format!("{before}\n\n{after}");
            prop_assert_eq!(cleaned.visible, rest.trim());
            prop_assert_eq!(cleaned.thought, thought);
        }

        #[test]
        fn what_is_visible_was_said(text in any_text()) {
            // Each visible character that is no blank stands in the text, in the same order.
            let mut said = text.chars();
            for c in visible(&text).chars().filter(|c| !c.is_whitespace()) {
                prop_assert!(said.any(|other| other == c));
            }
        }
    }
}
