//! Text on lines: words with one space between them, blocks with an empty line between them, prefixes and marks.

use tidegate_net::Address;

use super::Mode;

/// Deeper lists and quotes look like this deep.
const DEEPEST: usize = 8;
/// Marks that are open at once; more are left out.
const MOST_MARKS: usize = 16;
const LONGEST_LINK: usize = 2000;

/// The text so far. It takes no more once it is full.
pub(super) struct Layout<'a> {
    out: String,
    limit: usize,
    full: bool,
    pub(super) mode: Mode,
    base: Option<&'a Address>,
    /// Line ends that come before the next word.
    breaks: usize,
    at: At,
    quotes: usize,
    lists: Vec<List>,
    /// What the next word's line begins with, once: `- `, `## `.
    lead: String,
    /// Marks that were opened, and whether a word has come since.
    marks: Vec<Mark>,
    /// Inside a cell of a real table line ends are spaces.
    pub(super) in_cell: bool,
}

/// Where the text stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    /// Nothing is on this line yet.
    LineStart,
    Word,
    /// A word, and a space before the next one.
    Space,
}

/// A list, and the number of its last item if it counts.
struct List {
    number: Option<usize>,
}

struct Mark {
    open: &'static str,
    close: String,
    written: bool,
}

impl<'a> Layout<'a> {
    pub(super) fn new(mode: Mode, base: Option<&'a Address>, limit: usize) -> Self {
        Self {
            out: String::new(),
            limit,
            full: false,
            mode,
            base,
            breaks: 0,
            at: At::LineStart,
            quotes: 0,
            lists: Vec::new(),
            lead: String::new(),
            marks: Vec::new(),
            in_cell: false,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.full
    }

    /// The text and whether there was more.
    pub(super) fn finish(self) -> (String, bool) {
        (self.out.trim_end().to_owned(), self.full)
    }

    /// Text whose spaces mean nothing.
    pub(super) fn words(&mut self, text: &str) {
        for (number, word) in text.split([' ', '\t', '\n', '\r', '\u{c}']).enumerate() {
            if number > 0 {
                self.space();
            }
            if !word.is_empty() {
                self.word(word);
            }
        }
    }

    fn space(&mut self) {
        if self.at == At::Word {
            self.at = At::Space;
        }
    }

    fn word(&mut self, word: &str) {
        self.begin();
        for at in 0..self.marks.len() {
            if !self.marks[at].written {
                self.marks[at].written = true;
                let open = self.marks[at].open;
                self.push(open);
            }
        }
        self.push(word);
    }

    /// Brings the line to where the next word goes.
    fn begin(&mut self) {
        if self.breaks > 0 && !self.out.is_empty() {
            for number in 0..self.breaks {
                self.push("\n");
                if self.quotes > 0 && number + 1 < self.breaks {
                    let quote = "> ".repeat(self.quotes.min(DEEPEST));
                    self.push(quote.trim_end());
                }
            }
            self.at = At::LineStart;
        }
        if self.at == At::LineStart {
            let quote = "> ".repeat(self.quotes.min(DEEPEST));
            self.push(&quote);
            let depth = self.lists.len().min(DEEPEST).saturating_sub(1);
            if self.lead.is_empty() || !self.lists.is_empty() {
                let inside = usize::from(self.lead.is_empty() && !self.lists.is_empty());
                self.push(&"  ".repeat(depth + inside));
            }
            let lead = std::mem::take(&mut self.lead);
            self.push(&lead);
        } else if self.at == At::Space {
            self.push(" ");
        }
        (self.breaks, self.at) = (0, At::Word);
    }

    fn push(&mut self, text: &str) {
        if self.full {
            return;
        }
        let room = self.limit.saturating_sub(self.out.len());
        let end = text.floor_char_boundary(room);
        self.full = end < text.len();
        self.out.push_str(&text[..end]);
    }

    /// At least so many line ends before the next word.
    pub(super) fn line(&mut self, breaks: usize) {
        if self.in_cell {
            self.space();
        } else if self.at != At::LineStart || self.breaks > 0 {
            self.breaks = self.breaks.max(breaks);
        }
    }

    /// A block that stands by itself. An item's first block stands on the item's line.
    pub(super) fn block(&mut self) {
        if self.lead.is_empty() {
            self.line(if self.lists.is_empty() { 2 } else { 1 });
        }
    }

    pub(super) fn lead(&mut self, lead: &str) {
        lead.clone_into(&mut self.lead);
    }

    /// Written where a word would be, marks and all left out.
    pub(super) fn literal(&mut self, text: &str) {
        self.begin();
        self.push(text);
    }

    pub(super) fn open_list(&mut self, counts: bool) {
        let breaks = if self.lists.is_empty() { 2 } else { 1 };
        self.line(breaks);
        self.lists.push(List { number: counts.then_some(0) });
        self.lists.truncate(64);
    }

    pub(super) fn close_list(&mut self) {
        self.lists.pop();
        self.lead.clear();
        self.line(if self.lists.is_empty() { 2 } else { 1 });
    }

    pub(super) fn item(&mut self) {
        self.line(1);
        let lead = match self.lists.last_mut() {
            Some(List { number: Some(number) }) => {
                *number += 1;
                format!("{number}. ")
            }
            _ => "- ".to_owned(),
        };
        self.lead = lead;
    }

    pub(super) fn open_quote(&mut self) {
        self.line(2);
        if self.mode == Mode::Markdown {
            self.quotes += 1;
        }
    }

    pub(super) fn close_quote(&mut self) {
        self.quotes = self.quotes.saturating_sub(1);
        self.line(2);
    }

    pub(super) fn open_mark(&mut self, open: &'static str, close: String) {
        if self.mode == Mode::Markdown && self.marks.len() < MOST_MARKS {
            self.marks.push(Mark { open, close, written: false });
        }
    }

    /// Closes the innermost mark that was opened like this, and those inside it.
    pub(super) fn close_mark(&mut self, open: &str) {
        let Some(at) = self.marks.iter().rposition(|mark| mark.open == open) else { return };
        for mark in self.marks.split_off(at).into_iter().rev() {
            if mark.written {
                // Before the space that follows the word.
                self.push(&mark.close);
            }
        }
    }

    /// An address on this page as a whole one, if it can be read at all.
    pub(super) fn link(&self, target: &str) -> Option<String> {
        let target = target.trim();
        if target.is_empty() || target.starts_with('#') || target.len() > LONGEST_LINK {
            return None;
        }
        let address = match self.base {
            Some(base) => base.join(target),
            None => Address::read(target),
        };
        address.ok().map(|address| address.as_str().replace(')', "%29"))
    }

    /// Text whose spaces mean something, in a block of its own.
    pub(super) fn verbatim(&mut self, text: &str) {
        let text = text.trim_matches('\n').trim_end();
        if text.is_empty() {
            return;
        }
        self.line(2);
        if self.mode == Mode::Text {
            self.literal(text);
        } else {
            let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
            let fence = "`".repeat((longest + 1).max(3));
            self.literal(&format!("{fence}\n{text}\n{fence}"));
        }
        self.line(2);
    }
}
