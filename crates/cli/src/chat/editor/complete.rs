//! Completing commands, their arguments, and names of models after `@`. Pure.

/// Something that may be meant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::chat) struct Choice {
    pub(in crate::chat) word: String,
    pub(in crate::chat) about: String,
}

/// Everything that can be completed.
#[derive(Debug, Clone, Default)]
pub(in crate::chat) struct Completions {
    /// With the slash.
    pub(in crate::chat) commands: Vec<Choice>,
    /// What may follow a command: `/think` and its levels.
    pub(in crate::chat) arguments: Vec<(String, Vec<Choice>)>,
    /// Without the `@`.
    pub(in crate::chat) models: Vec<Choice>,
}

impl Completions {
    /// Where the word that is typed begins, and what it may become.
    fn find(&self, before: &str) -> Option<(usize, Vec<Choice>)> {
        let from = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let word = before.get(from..)?;
        let first = before.split_whitespace().next().unwrap_or_default();
        let candidates: Vec<Choice> = if word.starts_with('@') {
            let named =
                |model: &Choice| Choice { word: format!("@{}", model.word), about: model.about.clone() };
            self.models.iter().map(named).collect()
        } else if from == 0 && word.starts_with('/') {
            self.commands.clone()
        } else if before.trim_start().strip_prefix(first).is_some_and(|rest| rest.trim() == word) {
            self.arguments.iter().find(|(command, _)| command == first)?.1.clone()
        } else {
            return None;
        };
        // A model is known by its own name as well as with its provider's.
        let typed = word.trim_start_matches('@').to_lowercase();
        let starts = |choice: &Choice| {
            let whole = choice.word.to_lowercase();
            let own = whole.split_once('/').filter(|(provider, _)| !provider.is_empty());
            whole.starts_with(&word.to_lowercase())
                || !typed.is_empty() && own.is_some_and(|(_, own)| own.starts_with(&typed))
        };
        let fitting: Vec<Choice> = candidates.into_iter().filter(starts).collect();
        (!fitting.is_empty()).then_some((from, fitting))
    }

    /// The commands that fit while one is being typed.
    pub(super) fn hints(&self, before: &str, after: &str) -> Vec<(&Choice, bool)> {
        if !before.starts_with('/') || !after.is_empty() || before.contains(char::is_whitespace) {
            return Vec::new();
        }
        let fits = |choice: &&Choice| choice.word.starts_with(before);
        self.commands.iter().filter(fits).map(|choice| (choice, false)).collect()
    }
}

/// Choices that are gone through.
pub(super) struct Menu {
    from: usize,
    choices: Vec<Choice>,
    /// Which one is in the text; none while only their common beginning is.
    at: Option<usize>,
}

impl Menu {
    pub(super) fn open(completions: &Completions, before: &str) -> Option<Self> {
        let (from, choices) = completions.find(before)?;
        let typed = before.len() - from;
        let mut menu = Self { from, choices, at: None };
        // Nothing to add but a choice: the first one is taken at once.
        if menu.common().len() <= typed {
            menu.at = Some(0);
        }
        Some(menu)
    }

    pub(super) fn is_single(&self) -> bool {
        self.choices.len() == 1
    }

    pub(super) fn step(&mut self, by: isize) {
        let count = self.choices.len();
        let last = count.saturating_sub(1);
        self.at = Some(match (self.at, by < 0) {
            (None, false) => 0,
            (None | Some(0), true) => last,
            (Some(at), true) => at - 1,
            (Some(at), false) => (at + 1) % count.max(1),
        });
    }

    /// What stands in the text from a byte on: a choice, or what all of them begin with.
    pub(super) fn word(&self) -> (usize, String) {
        let word = match self.choices.as_slice() {
            [only] => format!("{} ", only.word),
            choices => self
                .at
                .and_then(|at| choices.get(at))
                .map_or_else(|| self.common(), |choice| choice.word.clone()),
        };
        (self.from, word)
    }

    pub(super) fn choices(&self) -> Vec<(&Choice, bool)> {
        self.choices.iter().enumerate().map(|(at, choice)| (choice, self.at == Some(at))).collect()
    }

    fn common(&self) -> String {
        let Some((first, others)) = self.choices.split_first() else { return String::new() };
        let mut common = first.word.as_str();
        for other in others {
            let same = common.char_indices().zip(other.word.chars()).take_while(|((_, a), b)| a == b);
            let end = same.last().map_or(0, |((at, c), _)| at + c.len_utf8());
            common = common.get(..end).unwrap_or_default();
        }
        common.to_owned()
    }
}
