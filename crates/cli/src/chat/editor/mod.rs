//! The line that is typed, which may have several lines. Pure: keys in, deeds out.

mod complete;
mod recall;
mod shown;
#[cfg(test)]
mod tests;
mod text;

pub(super) use complete::{Choice, Completions};
pub(super) use shown::Shown;

use self::complete::Menu;
use self::recall::Recall;
use self::text::Text;
use super::keys::Key;

/// What a key asks of whoever holds the editor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    /// At most what is shown changed.
    Nothing,
    /// This was entered; the line is empty again.
    Submit(String),
    /// Escape, with nothing of the editor's own to close.
    Escape,
    /// The interrupt key with nothing to clear: the next one leaves.
    Warn,
    Leave,
}

#[derive(Default)]
pub(super) struct Editor {
    text: Text,
    recall: Recall,
    completions: Completions,
    menu: Option<Menu>,
    /// What was cut last.
    cut: String,
    /// The interrupt key was the last one.
    warned: bool,
}

impl Editor {
    pub(super) fn new(history: Vec<String>, completions: Completions) -> Self {
        Self { recall: Recall::new(history), completions, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.as_str().is_empty()
    }

    /// What is typed so far; the line is empty afterwards.
    pub(super) fn take(&mut self) -> String {
        (self.menu, self.warned) = (None, false);
        self.recall.rest();
        std::mem::take(&mut self.text).into_string()
    }

    /// Empties the line; what stood there can be put back as what was cut can.
    pub(super) fn set_aside(&mut self) {
        let text = self.take();
        if !text.is_empty() {
            self.cut = text;
        }
    }

    pub(super) fn press(&mut self, key: Key) -> Deed {
        let warned = std::mem::take(&mut self.warned);
        match key {
            Key::Ctrl('c') => return self.interrupt(warned),
            Key::Ctrl('d') if self.is_empty() => return Deed::Leave,
            Key::Esc => return if self.menu.take().is_some() { Deed::Nothing } else { Deed::Escape },
            Key::Tab => self.complete(1),
            Key::BackTab => self.complete(-1),
            Key::Enter => return self.enter(),
            Key::Up | Key::Ctrl('p') => self.up(),
            Key::Down | Key::Ctrl('n') => self.down(),
            key => {
                self.menu = None;
                if self.edit(key) {
                    self.recall.rest();
                }
            }
        }
        Deed::Nothing
    }

    /// Whether the text changed.
    fn edit(&mut self, key: Key) -> bool {
        let text = &mut self.text;
        let cut = match key {
            Key::Char(c) => return text.insert(c.encode_utf8(&mut [0; 4])),
            Key::Paste(pasted) => return text.insert(&pasted),
            Key::NewLine => return text.insert("\n"),
            Key::Backspace => return !text.remove_before().is_empty(),
            Key::Delete | Key::Ctrl('d') => return !text.remove_after().is_empty(),
            Key::Ctrl('y') => return text.insert(&self.cut),
            Key::Ctrl('w') | Key::WordBackspace => text.remove_word_before(),
            Key::WordDelete => text.remove_word_after(),
            Key::Ctrl('u') => text.remove_to_line_start(),
            Key::Ctrl('k') => text.remove_to_line_end(),
            key => {
                text.go(&key);
                return false;
            }
        };
        let changed = !cut.is_empty();
        if changed {
            self.cut = cut;
        }
        changed
    }

    fn interrupt(&mut self, warned: bool) -> Deed {
        self.menu = None;
        if !self.is_empty() {
            self.set_aside();
            return Deed::Nothing;
        }
        self.warned = !warned;
        if warned { Deed::Leave } else { Deed::Warn }
    }

    fn enter(&mut self) -> Deed {
        self.menu = None;
        if self.text.continues() {
            return Deed::Nothing;
        }
        if self.text.as_str().trim().is_empty() {
            return Deed::Nothing;
        }
        let text = self.take();
        self.recall.add(&text);
        Deed::Submit(text)
    }

    fn up(&mut self) {
        if self.menu.is_some() {
            return self.complete(-1);
        }
        if !self.text.line_up()
            && let Some(text) = self.recall.older(&self.text)
        {
            self.text = Text::of(&text);
        }
    }

    fn down(&mut self) {
        if self.menu.is_some() {
            return self.complete(1);
        }
        if !self.text.line_down()
            && let Some(text) = self.recall.newer()
        {
            self.text = Text::of(&text);
        }
    }

    /// Completes the word before the cursor, or goes on to the next choice.
    fn complete(&mut self, by: isize) {
        if let Some(menu) = &mut self.menu {
            menu.step(by);
        } else {
            self.menu = Menu::open(&self.completions, self.text.before());
        }
        let Some(menu) = &self.menu else { return };
        let (from, word) = menu.word();
        self.text.replace_before(from, &word);
        if menu.is_single() {
            self.menu = None;
        }
    }

    /// What could be meant, for showing: the open menu, or what fits a command that is being typed.
    pub(super) fn choices(&self) -> Vec<(&Choice, bool)> {
        match &self.menu {
            Some(menu) => menu.choices(),
            None => self.completions.hints(self.text.before(), self.text.after()),
        }
    }

    /// The rows of the input and where the cursor is.
    pub(super) fn shown(&self, width: usize, most_rows: usize) -> Shown {
        shown::shown(&self.text, width, most_rows)
    }
}
