//! Looking through a script for commands, wherever they stand in it.

use tree_sitter::Node;

use super::{Destructive, Input, Scene, Search, Word, rules};
use crate::exec::paths::absolute;
use crate::exec::programs;
use crate::exec::read::{Syntax, children, parse};

/// The first rule that something in a script breaks.
pub(super) fn search(search: &mut Search, text: &str, cwd: &str, depth: u32) -> Option<Destructive> {
    if is_fork_bomb(text) {
        let reason = "it starts itself over and over".to_owned();
        return Some(Destructive { rule: "fork-bomb", reason });
    }
    let syntax = parse(text);
    let found = syntax.as_ref().and_then(|syntax| Walk::new(search, cwd, depth).run(syntax));
    let is_clean = syntax.is_some_and(|syntax| !syntax.tree.root_node().has_error());
    found.or_else(|| if is_clean { None } else { scan(search, text, cwd) })
}

/// A function whose body pipes it into itself: `:(){ :|:& };:` under any name.
fn is_fork_bomb(text: &str) -> bool {
    let dense: String = text.chars().filter(|character| !character.is_whitespace()).collect();
    dense.match_indices("(){").any(|(at, _)| {
        let before = &dense[..at];
        let start = before.rfind([';', '&', '|', '(', '{', '}']).map_or(0, |end| end + 1);
        let name = before[start..].trim_start_matches("function");
        !name.is_empty() && dense[at..].contains(&format!("{name}|{name}"))
    })
}

/// Without a syntax tree: every piece between operators, split at blanks.
fn scan(search: &Search, text: &str, cwd: &str) -> Option<Destructive> {
    let scene = Scene { cwd, home: &search.home };
    text.split(['\n', ';', '&', '|', '(', ')', '{', '}', '`']).find_map(|piece| {
        let bare: String = piece.chars().filter(|character| !"'\"\\".contains(*character)).collect();
        let words: Vec<_> = bare.split_whitespace().map(Word::open).collect();
        (0..words.len()).find_map(|at| rules::broken(&words[at..], &scene))
    })
}

struct Walk<'s> {
    search: &'s mut Search,
    cwd: String,
    depth: u32,
    input: Input,
}

impl<'s> Walk<'s> {
    fn new(search: &'s mut Search, cwd: &str, depth: u32) -> Self {
        Self { search, cwd: cwd.to_owned(), depth, input: Input::default() }
    }

    fn run(mut self, syntax: &Syntax<'_>) -> Option<Destructive> {
        let mut cursor = syntax.tree.walk();
        loop {
            if let Some(found) = self.visit(syntax, cursor.node()) {
                return Some(found);
            }
            if cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return self.input.search(self.search, &self.cwd, self.depth);
                }
            }
        }
    }

    fn visit(&mut self, syntax: &Syntax<'_>, node: Node<'_>) -> Option<Destructive> {
        match node.kind() {
            "command" => self.command(&command_words(syntax, node)),
            "file_redirect" if syntax.of(node).contains('>') => {
                let target = word(syntax, node.child_by_field_name("destination")?);
                rules::written(&target, &Scene { cwd: &self.cwd, home: &self.search.home })
            }
            "heredoc_body" => {
                self.input.texts.push(syntax.of(node).to_owned());
                None
            }
            "herestring_redirect" => {
                self.input.texts.push(word(syntax, children(node).next_back()?).text);
                None
            }
            _ => None,
        }
    }

    fn command(&mut self, words: &[Word]) -> Option<Destructive> {
        let found = self.search.command(words, &self.cwd, self.depth);
        let (first, rest) = words.split_first()?;
        let folder = rest.iter().find(|word| !word.text.starts_with('-'));
        if let ("cd" | "pushd", Some(folder)) = (programs::base(&first.text).as_ref(), folder) {
            self.cwd = absolute(&folder.text, &self.cwd);
        }
        self.input.note(words);
        found
    }
}

fn command_words(syntax: &Syntax<'_>, node: Node<'_>) -> Vec<Word> {
    children(node)
        .filter(|child| {
            !matches!(child.kind(), "variable_assignment" | "file_redirect" | "herestring_redirect")
        })
        .map(|child| word(syntax, child))
        .collect()
}

/// A word as far as it is known; what the shell would replace stays as it is written.
fn word(syntax: &Syntax<'_>, node: Node<'_>) -> Word {
    let text = syntax.of(node);
    match node.kind() {
        "command_name" | "concatenation" => {
            let parts: Vec<_> = children(node).map(|part| word(syntax, part)).collect();
            let is_literal = parts.iter().all(|part| part.is_literal);
            Word { text: parts.into_iter().map(|part| part.text).collect(), is_literal }
        }
        "raw_string" => Word::literal(text.trim_matches('\'')),
        "string" => {
            let inside = text.strip_prefix('"').unwrap_or(text);
            let inside = inside.strip_suffix('"').unwrap_or(inside);
            let is_literal = !inside.contains(['$', '`']);
            Word { text: unescaped(inside), is_literal }
        }
        "word" | "number" => {
            let is_literal = !text.contains(['*', '?', '[', '{', '$', '~', '`']);
            Word { text: unescaped(text), is_literal }
        }
        _ => Word::open(text),
    }
}

fn unescaped(text: &str) -> String {
    let mut escaped = false;
    let keep = |character: &char| {
        escaped = *character == '\\' && !escaped;
        !escaped
    };
    text.chars().filter(keep).collect()
}
