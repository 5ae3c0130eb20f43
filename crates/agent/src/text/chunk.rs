//! Cuts a text into blocks of a size that can be sent, at places a reader would choose.
//!
//! A block is cut as soon as more than fits has come, from what fits alone: where deltas were cut cannot
//! matter. Sizes count characters.

use super::fences::{FenceSpan, fence_spans};

/// Where a block should end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Preference {
    /// At an empty line, else at the end of a line, else of a sentence.
    #[default]
    Paragraph,
    Newline,
    Sentence,
}

/// The size of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    /// No block ends before it has this many characters, except the last.
    pub min: usize,
    /// No block has more characters than this, the line that closes a cut fence aside.
    pub max: usize,
    pub preference: Preference,
}

impl Default for Chunking {
    fn default() -> Self {
        Self { min: 800, max: 1200, preference: Preference::default() }
    }
}

/// Where a block ends, in bytes of the window.
#[derive(Debug, PartialEq, Eq)]
enum Cut {
    At(usize),
    /// Inside a fence, which is closed in this block and opened again in the next.
    InFence {
        at: usize,
        close: String,
        reopen: String,
    },
}

/// Cuts a text while it comes.
#[derive(Debug, Default)]
pub struct BlockChunker {
    chunking: Chunking,
    buffer: String,
    /// Characters in `buffer`.
    length: usize,
    has_cut: bool,
    /// `buffer` begins with a fence that the block before it closed.
    has_reopened: bool,
}

impl BlockChunker {
    pub fn new(chunking: Chunking) -> Self {
        let min = chunking.min.max(1);
        let max = chunking.max.max(min);
        Self { chunking: Chunking { min, max, ..chunking }, ..Self::default() }
    }

    /// Takes more text, returns the blocks that are whole.
    pub fn push(&mut self, text: &str) -> Vec<String> {
        let mut blocks = Vec::new();
        for c in text.chars() {
            self.buffer.push(c);
            self.length += 1;
            while self.is_full() {
                blocks.extend(self.cut());
            }
        }
        blocks
    }

    /// Returns the rest: the text is over, or something else comes in between.
    pub fn flush(&mut self) -> Option<String> {
        self.drop_empty_fence();
        let rest = std::mem::take(&mut self.buffer);
        (self.length, self.has_cut) = (0, false);
        (!rest.trim().is_empty()).then_some(rest)
    }

    /// What fits is never cut. The rest of a text that was cut need not wait for one character more.
    fn is_full(&self) -> bool {
        self.length > self.chunking.max || self.has_cut && self.length == self.chunking.max
    }

    /// A fence that was opened again only to be closed is left out.
    fn drop_empty_fence(&mut self) {
        if !std::mem::take(&mut self.has_reopened) {
            return;
        }
        let spans = fence_spans(&self.buffer);
        let Some(fence) = spans.first().filter(|fence| fence.closed) else { return };
        let inside = self.buffer.get(fence.open_line.len() + 1..fence.end);
        if inside.is_some_and(|inside| !inside.contains('\n')) {
            let (_, rest) = self.buffer.split_at(fence.end);
            self.buffer = rest.trim_start_matches('\n').to_owned();
            self.length = self.buffer.chars().count();
        }
    }

    fn cut(&mut self) -> Option<String> {
        self.drop_empty_fence();
        if !self.is_full() {
            return None;
        }
        let end = nth(&self.buffer, self.chunking.max);
        let (window, _) = self.buffer.split_at(end);
        let (block, rest) = match pick(window, &self.chunking) {
            Cut::At(at) => {
                let (block, rest) = self.buffer.split_at(at);
                if block.trim().is_empty() {
                    (String::new(), rest.trim_start().to_owned())
                } else {
                    let rest = rest.strip_prefix(char::is_whitespace).unwrap_or(rest);
                    (block.to_owned(), rest.trim_start_matches('\n').to_owned())
                }
            }
            Cut::InFence { at, close, reopen } => {
                let (block, rest) = self.buffer.split_at(at);
                let end_line = if block.ends_with('\n') { "" } else { "\n" };
                self.has_reopened = true;
                (format!("{block}{end_line}{close}\n"), format!("{reopen}\n{rest}"))
            }
        };
        self.length = rest.chars().count();
        self.buffer = rest;
        self.has_cut |= !block.is_empty();
        (!block.is_empty()).then_some(block)
    }
}

/// The byte where the character of that number begins.
fn nth(text: &str, number: usize) -> usize {
    text.char_indices().nth(number).map_or(text.len(), |(at, _)| at)
}

/// The last good place in a window, best kinds first, else its end.
fn pick(window: &str, chunking: &Chunking) -> Cut {
    let spans = fence_spans(window);
    let min = nth(window, chunking.min);
    let is_good = |at: &usize| *at >= min && fence_around(&spans, *at).is_none();
    let newlines = || window.rmatch_indices('\n').map(|(at, _)| at).find(is_good);
    let sentences = || sentence_ends(window).into_iter().rev().find(is_good);
    let found = match chunking.preference {
        Preference::Paragraph => {
            let empty_lines = window.rmatch_indices("\n\n").flat_map(|(at, _)| [at, at + 1]);
            { empty_lines }.find(is_good).or_else(newlines).or_else(sentences)
        }
        Preference::Newline => newlines(),
        Preference::Sentence => sentences(),
    };
    let blanks = || window.rmatch_indices(char::is_whitespace).map(|(at, _)| at).find(is_good);
    match found.or_else(blanks) {
        Some(at) => Cut::At(at),
        None => at_the_end(window, &spans),
    }
}

/// No good place: the window's end, and a fence that is open there goes on in the next block.
fn at_the_end(window: &str, spans: &[FenceSpan<'_>]) -> Cut {
    let at = window.len();
    let Some(fence) = fence_around(spans, at) else { return Cut::At(at) };
    let content = fence.start + fence.open_line.len() + 1;
    // A cut in the opening line, or right behind it, would leave a fence of nothing and take nothing off the
    // text: the fence goes to the next block as a whole.
    if at <= content {
        return Cut::At(if fence.start > 0 { fence.start } else { at });
    }
    // Marks at the start of the last line may be half of what closes the fence.
    let last = window.rfind('\n').map_or(0, |newline| newline + 1);
    let (_, line) = window.split_at(last);
    let is_marks = line.trim_start_matches(' ').chars().all(|c| fence.marker.starts_with(c));
    let at = if is_marks && last > content { last } else { at };
    let close = format!("{}{}", fence.indent, fence.marker);
    Cut::InFence { at, close, reopen: fence.open_line.to_owned() }
}

/// The fence that a cut would break. One without a closing line goes on behind the window.
fn fence_around<'s, 't>(spans: &'s [FenceSpan<'t>], at: usize) -> Option<&'s FenceSpan<'t>> {
    spans.iter().find(|span| span.start < at && (at < span.end || !span.closed))
}

/// The places behind the sentences of a text. Chinese full stops need no blank behind them.
fn sentence_ends(text: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let ends_here = match c {
            '.' | '!' | '?' => characters.peek().is_none_or(|(_, next)| next.is_whitespace()),
            '。' | '！' | '？' => true,
            _ => false,
        };
        if ends_here {
            ends.push(at + c.len_utf8());
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The blocks of a whole text.
    fn blocks(text: &str, chunking: &Chunking) -> Vec<String> {
        let mut chunker = BlockChunker::new(*chunking);
        let mut blocks = chunker.push(text);
        blocks.extend(chunker.flush());
        blocks
    }

    fn chunking(min: usize, max: usize, preference: Preference) -> Chunking {
        Chunking { min, max, preference }
    }

    /// The recorded cases. Upstream's blocks depend on how the text was cut into deltas; ours are always
    /// those it gives either for the text at once or for these deltas.
    #[test]
    fn the_recorded_texts_are_cut_where_upstream_cuts_them() {
        use Preference::{Newline, Paragraph};
        let cases: [(Chunking, &str, &[&str]); 6] = [
            (chunking(10, 30, Paragraph), "Hello world. This is a test.", &["Hello world. This is a test."]),
            (
                chunking(5, 20, Newline),
                "line one\nline two\nline three\nline four",
                &["line one\nline two", "line three", "line four"],
            ),
            // At once, upstream cuts the short rest too: "…3;\n```", "after".
            (
                chunking(10, 24, Paragraph),
                "```js\nconst a = 1;\nconst b = 2;\nconst c = 3;\n```\nafter",
                &[
                    "```js\nconst a = 1;\nconst\n```\n",
                    "```js\n b = 2;\nconst c = \n```\n",
                    "```js\n3;\n```\nafter",
                ],
            ),
            // From the deltas "a b", "c d e", " f g h i" upstream makes "a", "bc d", "e f g h", "i".
            (chunking(1, 8, Paragraph), "a bc d e f g h i", &["a bc d", "e f g h", "i"]),
            (
                chunking(10, 25, Paragraph),
                "  ```py\nprint('x'*100)\nprint('y')\n  ```\ndone",
                &["  ```py\nprint('x'*100)\npr\n  ```\n", "  ```py\nint('y')\n  ```", "done"],
            ),
            (chunking(3, 10, Paragraph), "\n\n\n   \n\nhi there friend", &["hi there", "friend"]),
        ];
        for (chunking, text, expected) in cases {
            assert_eq!(blocks(text, &chunking), expected, "{text:?}");
        }
    }

    #[test]
    fn the_best_kind_of_place_wins_and_the_last_of_its_kind() {
        let text = "One. Two.\n\nThree. Four\nfive. Six seven eight";
        for (preference, first) in [
            (Preference::Paragraph, "One. Two."),
            (Preference::Newline, "One. Two.\n\nThree. Four"),
            (Preference::Sentence, "One. Two.\n\nThree. Four\nfive."),
        ] {
            assert_eq!(blocks(text, &chunking(4, 34, preference))[0], first, "{preference:?}");
        }
        assert_eq!(blocks("甲。乙。丙丁戊", &chunking(1, 5, Preference::Sentence)), ["甲。乙。", "丙丁戊"]);
        assert_eq!(blocks("pi is 3.14159", &chunking(1, 9, Preference::Sentence)), ["pi is", "3.14159"]);
    }

    #[test]
    fn a_text_that_fits_is_not_cut() {
        assert_eq!(blocks("exact ten!", &chunking(1, 10, Preference::Paragraph)), ["exact ten!"]);
        assert_eq!(blocks(" \n ", &Chunking::default()), Vec::<String>::new());
    }

    #[test]
    fn a_fence_moves_to_the_next_block_rather_than_being_cut_in_its_first_line() {
        let text = "abc\n```javascript\nx\n```";
        assert_eq!(
            blocks(text, &chunking(8, 17, Preference::Paragraph)),
            ["abc\n", "```javascript\nx\n```\n"]
        );
    }

    #[test]
    fn what_closes_a_fence_is_not_cut_and_leaves_no_empty_fence() {
        let text = "```js\nabcdefgh\n```\ndone";
        for max in 15..=17 {
            let blocks = blocks(text, &chunking(12, max, Preference::Paragraph));
            assert_eq!(blocks, ["```js\nabcdefgh\n```\n", "done"], "{max}");
        }
    }

    #[test]
    fn the_rest_comes_when_it_is_asked_for() {
        let mut chunker = BlockChunker::new(Chunking::default());
        assert_eq!(chunker.push("Let me look."), Vec::<String>::new());
        assert_eq!(chunker.flush().as_deref(), Some("Let me look."));
        assert_eq!(chunker.flush(), None);
    }

    fn any_text() -> impl Strategy<Value = String> {
        let parts =
            ["a", "é", "界", "🎉", " ", "\n", "\n\n", ". ", "。", "```\n", "\n```\n", "~~~\n", "word"];
        prop::collection::vec(prop::sample::select(parts.to_vec()), 0..60).prop_map(|parts| parts.concat())
    }

    fn any_chunking() -> impl Strategy<Value = Chunking> {
        let preferences = vec![Preference::Paragraph, Preference::Newline, Preference::Sentence];
        (0..20usize, 0..30usize, prop::sample::select(preferences))
            .prop_map(|(min, max, preference)| Chunking { min, max, preference })
    }

    /// Without what a cut may add or drop: fence lines and blanks.
    fn substance(text: &str) -> String {
        text.chars().filter(|c| !c.is_whitespace() && !matches!(c, '`' | '~')).collect()
    }

    proptest! {
        #[test]
        fn blocks_do_not_depend_on_where_deltas_split(
            text in any_text(), chunking in any_chunking(), every in 1..7usize
        ) {
            let mut chunker = BlockChunker::new(chunking);
            let characters: Vec<char> = text.chars().collect();
            let mut streamed = Vec::new();
            for delta in characters.chunks(every) {
                streamed.extend(chunker.push(&delta.iter().collect::<String>()));
            }
            streamed.extend(chunker.flush());
            prop_assert_eq!(streamed, blocks(&text, &chunking));
        }

        #[test]
        fn nothing_but_blanks_is_lost(text in any_text(), chunking in any_chunking()) {
            let blocks = blocks(&text, &chunking);
            prop_assert_eq!(substance(&blocks.concat()), substance(&text));
            prop_assert!(blocks.iter().all(|block| !block.trim().is_empty()));
        }

        #[test]
        fn no_block_is_too_long(text in any_text(), chunking in any_chunking()) {
            let most = chunking.max.max(chunking.min).max(1);
            for block in blocks(&text, &chunking) {
                let closing = block.lines().last().filter(|_| block.ends_with('\n')).unwrap_or_default();
                let added = closing.chars().count() + 2;
                prop_assert!(block.chars().count() <= most + added, "{:?}", block);
            }
        }
    }
}
