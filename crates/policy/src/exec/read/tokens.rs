//! The first reader: character by character, giving up at everything that is not plain.

use super::{Reason, Sketch, SketchStep};
use crate::exec::plan::Join;

/// Reads plain words joined by `&&`, `||`, `;` and `|`.
pub(super) fn read(text: &str) -> Result<Sketch, Reason> {
    let mut reader = Reader { rest: text, last: None };
    let mut steps = vec![SketchStep { join: Join::Then, commands: vec![Vec::new()] }];
    loop {
        reader.blanks();
        let Some(next) = reader.peek() else { break };
        if let Some(operator) = reader.operator(next)? {
            join(&mut steps, operator)?;
            continue;
        }
        let word = reader.word()?;
        if let Some(command) = steps.last_mut().and_then(|step| step.commands.last_mut()) {
            command.push(word);
        }
    }
    finish(steps)
}

#[derive(Clone, Copy)]
enum Operator {
    Joins(Join),
    Pipes,
}

/// Begins the next command; the one before must have words.
fn join(steps: &mut Vec<SketchStep>, operator: Operator) -> Result<(), Reason> {
    let Some(last) = steps.last_mut() else { return Err(missing()) };
    if last.commands.last().is_none_or(Vec::is_empty) {
        return Err(missing());
    }
    match operator {
        Operator::Pipes => last.commands.push(Vec::new()),
        Operator::Joins(join) => steps.push(SketchStep { join, commands: vec![Vec::new()] }),
    }
    Ok(())
}

/// Drops what follows a `;` at the end, and refuses any other join that leads nowhere.
fn finish(mut steps: Vec<SketchStep>) -> Result<Sketch, Reason> {
    let ends_with_semicolon = steps.len() > 1
        && steps
            .last()
            .is_some_and(|step| step.join == Join::Then && step.commands == [Vec::<String>::new()]);
    if ends_with_semicolon {
        steps.pop();
    }
    if steps.iter().flat_map(|step| &step.commands).any(Vec::is_empty) {
        return Err(missing());
    }
    Ok(Sketch { steps })
}

fn missing() -> Reason {
    "a command is missing beside an operator".to_owned()
}

struct Reader<'a> {
    rest: &'a str,
    /// The character before, as it was written.
    last: Option<char>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.rest = &self.rest[character.len_utf8()..];
        self.last = Some(character);
        Some(character)
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.take();
        }
    }

    fn operator(&mut self, next: char) -> Result<Option<Operator>, Reason> {
        let operator = match next {
            '&' if self.rest.starts_with("&&") => Operator::Joins(Join::And),
            '&' => return Err("it uses `&`".to_owned()),
            '|' if self.rest.starts_with("||") => Operator::Joins(Join::Or),
            '|' if self.rest.starts_with("|&") => return Err("it uses `|&`".to_owned()),
            '|' => Operator::Pipes,
            ';' if self.rest.starts_with(";;") || self.rest.starts_with(";&") => {
                return Err("it uses `;;` or `;&`".to_owned());
            }
            ';' => Operator::Joins(Join::Then),
            '\n' => return Err("it has more than one line".to_owned()),
            _ => return Ok(None),
        };
        self.take();
        if matches!(operator, Operator::Joins(Join::And | Join::Or)) {
            self.take();
        }
        Ok(Some(operator))
    }

    /// One word, with its quotes taken off.
    fn word(&mut self) -> Result<String, Reason> {
        let mut word = String::new();
        let mut at_start = true;
        while let Some(next) = self.peek() {
            match next {
                ' ' | '\t' | '\n' | '&' | '|' | ';' => break,
                '\'' => self.single_quoted(&mut word)?,
                '"' => self.double_quoted(&mut word)?,
                '\\' => self.escaped(&mut word)?,
                '~' if at_start || !self.tilde_is_plain() => return Err("it uses `~`".to_owned()),
                '#' if at_start => return Err("it has a comment".to_owned()),
                _ => {
                    if let Some(reason) = special(next, self.rest) {
                        return Err(reason);
                    }
                    word.extend(self.take());
                }
            }
            at_start = false;
        }
        Ok(word)
    }

    /// After `=` and `:` bash may still put a home folder in its place.
    fn tilde_is_plain(&self) -> bool {
        self.last.is_some_and(|last| last.is_ascii_alphanumeric() || "_-./^".contains(last))
    }

    fn single_quoted(&mut self, word: &mut String) -> Result<(), Reason> {
        self.take();
        while let Some(character) = self.take() {
            match character {
                '\'' => return Ok(()),
                '\n' => return Err("it has more than one line".to_owned()),
                other => word.push(other),
            }
        }
        Err("a quote is not closed".to_owned())
    }

    fn double_quoted(&mut self, word: &mut String) -> Result<(), Reason> {
        self.take();
        while let Some(next) = self.peek() {
            match next {
                '"' => {
                    self.take();
                    return Ok(());
                }
                '\n' => return Err("it has more than one line".to_owned()),
                '$' | '`' => return Err(expansion(self.rest)),
                '\\' => {
                    self.take();
                    match self.take() {
                        Some('\n') => return Err("it continues a line".to_owned()),
                        Some(special @ ('$' | '`' | '"' | '\\')) => word.push(special),
                        Some(other) => word.extend(['\\', other]),
                        None => break,
                    }
                }
                _ => word.extend(self.take()),
            }
        }
        Err("a quote is not closed".to_owned())
    }

    fn escaped(&mut self, word: &mut String) -> Result<(), Reason> {
        self.take();
        match self.take() {
            Some('\n') => Err("it continues a line".to_owned()),
            Some(character) => {
                word.push(character);
                Ok(())
            }
            None => Err("it ends in a backslash".to_owned()),
        }
    }
}

/// Why an unquoted character is more than itself.
fn special(character: char, rest: &str) -> Option<Reason> {
    let reason = match character {
        '$' | '`' => expansion(rest),
        '*' | '?' | '[' => format!("it uses the pattern character `{character}`"),
        '{' | '}' => "it uses braces".to_owned(),
        '(' | ')' => "it uses parentheses".to_owned(),
        '<' if rest.starts_with("<<") => "it has a here-document".to_owned(),
        '<' | '>' => "it redirects input or output".to_owned(),
        '!' => "it uses `!`".to_owned(),
        other if !other.is_ascii() && !other.is_alphanumeric() => {
            format!("`{other}` outside quotes is easily taken for something else")
        }
        _ => return None,
    };
    Some(reason)
}

fn expansion(rest: &str) -> Reason {
    let kinds = [
        ("$((", "$((…))"),
        ("$(", "$(…)"),
        ("${", "${…}"),
        ("$'", "$'…'"),
        ("$\"", "$\"…\""),
        ("$[", "$[…]"),
        ("`", "backticks"),
    ];
    match kinds.iter().find(|(start, _)| rest.starts_with(start)) {
        Some((_, "backticks")) => "it uses backticks".to_owned(),
        Some((_, kind)) => format!("it uses `{kind}`"),
        None => "it uses `$`".to_owned(),
    }
}
