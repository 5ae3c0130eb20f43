//! What is never done, whatever any rule allows.
//!
//! For a plan that was understood this looks at the real arguments. For a script that a shell reads it is a best effort
//! against accidents: it walks the whole syntax tree, into substitutions, loops and strings that a shell or a wrapper
//! would run, but a script that builds its commands from pieces gets past it. There the person who approves is the
//! boundary, and the sandbox.

mod arguments;
mod rules;
mod script;
mod targets;

use std::collections::HashSet;

use super::plan::Plan;
use super::programs;

/// A shipped rule that a plan breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destructive {
    pub rule: &'static str,
    pub reason: String,
}

/// The shipped rule that this plan breaks, if it breaks one.
pub fn destructive(plan: &Plan) -> Option<Destructive> {
    let home = plan.env().get("HOME").cloned().unwrap_or_default();
    let mut search = Search { home, scripts_left: MOST_SCRIPTS, seen: HashSet::new() };
    if let Some(opaque) = plan.opaque() {
        return search.script(&opaque.script, plan.cwd(), DEEPEST);
    }
    let mut input = Input::default();
    for launch in plan.launches() {
        let words: Vec<_> = launch.argv.iter().map(|word| Word::literal(word)).collect();
        if let Some(found) = search.command(&words, plan.cwd(), DEEPEST) {
            return Some(found);
        }
        input.note(&words);
    }
    input.search(&mut search, plan.cwd(), DEEPEST)
}

/// How deep commands inside commands are followed.
const DEEPEST: u32 = 6;

/// How many strings are read as scripts before the search ends.
const MOST_SCRIPTS: u32 = 64;

/// A word of a command, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    /// Nothing in it is replaced before the program gets it.
    is_literal: bool,
}

impl Word {
    fn literal(text: &str) -> Self {
        Self { text: text.to_owned(), is_literal: true }
    }

    fn open(text: &str) -> Self {
        Self { text: text.to_owned(), is_literal: false }
    }
}

impl AsRef<str> for Word {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

/// Where a command stands.
#[derive(Clone, Copy)]
struct Scene<'a> {
    cwd: &'a str,
    home: &'a str,
}

/// One search, with a bound on its work.
struct Search {
    home: String,
    scripts_left: u32,
    /// Texts that were read as scripts, with the depth and folder they were read at.
    seen: HashSet<(String, String, u32)>,
}

impl Search {
    fn command(&mut self, words: &[Word], cwd: &str, depth: u32) -> Option<Destructive> {
        let scene = Scene { cwd, home: &self.home };
        if let Some(found) = rules::broken(words, &scene) {
            return Some(found);
        }
        if depth == 0 || !programs::may_hold_commands(words) {
            return None;
        }
        // Where the inner command begins depends on every wrapper's options. Looking at each word is simpler and misses
        // none; that it may see a command in a name is no loss here.
        let inner = (1..words.len()).find_map(|at| rules::broken(&words[at..], &scene));
        inner.or_else(|| self.strings(words, cwd, depth - 1))
    }

    /// Arguments that a shell, a wrapper or an interpreter may run: as they are, and the strings inside them.
    fn strings(&mut self, words: &[Word], cwd: &str, depth: u32) -> Option<Destructive> {
        for argument in words.iter().skip(1).map(|word| word.text.as_str()) {
            let value = match argument.split_once('=') {
                Some((name, value)) if argument.starts_with('-') || !name.contains(' ') => value,
                _ => argument,
            };
            let value = value.trim_start_matches("exec=").trim_start_matches('!');
            // `-S` and its like may have their value without a blank between.
            let attached = argument.get(2..).filter(|_| argument.starts_with('-')).unwrap_or_default();
            let quoted = quoted_strings(argument);
            let mut candidates = vec![argument, value, attached];
            candidates.extend(quoted.iter().map(String::as_str));
            let joined = quoted.join(" ");
            candidates.push(&joined);
            for candidate in candidates {
                if let Some(found) = self.script(candidate, cwd, depth) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Reads a text as a script, unless nothing in it could matter.
    fn script(&mut self, text: &str, cwd: &str, depth: u32) -> Option<Destructive> {
        let is_idle = self.scripts_left == 0 || !rules::could_matter(text);
        if is_idle || !self.seen.insert((text.to_owned(), cwd.to_owned(), depth)) {
            return None;
        }
        self.scripts_left -= 1;
        script::search(self, text, cwd, depth)
    }
}

/// What a shell without a script would read: `echo … | sh` and `sh <<EOF` run what was said.
#[derive(Default)]
struct Input {
    texts: Vec<String>,
    has_shell: bool,
}

impl Input {
    fn note(&mut self, words: &[Word]) {
        let Some((first, rest)) = words.split_first() else { return };
        if matches!(programs::base(&first.text).as_ref(), "echo" | "printf") {
            let said: Vec<_> = rest.iter().map(|word| word.text.as_str()).collect();
            self.texts.push(said.join(" "));
        }
        self.has_shell |= words.iter().any(|word| programs::is_shell(&word.text));
    }

    fn search(&self, search: &mut Search, cwd: &str, depth: u32) -> Option<Destructive> {
        if !self.has_shell || depth == 0 {
            return None;
        }
        self.texts.iter().find_map(|text| search.script(text, cwd, depth - 1))
    }
}

/// What stands in quotes in a piece of code, whatever the language.
fn quoted_strings(code: &str) -> Vec<String> {
    let mut strings = Vec::new();
    let mut open: Option<(char, String)> = None;
    let mut escaped = false;
    for character in code.chars() {
        match &mut open {
            Some((quote, _)) if character == *quote && !escaped => {
                strings.extend(open.take().map(|(_, text)| text));
            }
            Some((_, text)) => {
                escaped = character == '\\' && !escaped;
                if !escaped {
                    text.push(character);
                }
            }
            None if matches!(character, '\'' | '"' | '`') => open = Some((character, String::new())),
            None => {}
        }
    }
    strings
}
