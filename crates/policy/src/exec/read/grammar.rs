//! The second reader: bash's grammar, of which only a few kinds of nodes count as understood.

use std::cell::RefCell;
use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, Parser, Tree};

use super::{Sketch, SketchStep};
use crate::exec::plan::Join;

/// How often the parser may report progress before it is stopped: far more than 64 KB of honest text needs.
const MOST_PROGRESS: u32 = 200_000;

thread_local! {
    /// Setting one up costs more than most scripts take to read.
    static PARSER: RefCell<Option<Parser>> = RefCell::new(new_parser());
}

fn new_parser() -> Option<Parser> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    Some(parser)
}

/// A script and its syntax tree.
pub(in crate::exec) struct Syntax<'a> {
    pub(in crate::exec) text: &'a str,
    pub(in crate::exec) tree: Tree,
}

impl Syntax<'_> {
    pub(in crate::exec) fn of(&self, node: Node<'_>) -> &str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }
}

/// The syntax tree of a script; absent when reading it takes too long.
pub(in crate::exec) fn parse(text: &str) -> Option<Syntax<'_>> {
    PARSER.with_borrow_mut(|slot| {
        let parser = slot.as_mut()?;
        let mut progress = 0;
        let mut watch = |_: &_| {
            progress += 1;
            if progress > MOST_PROGRESS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = ParseOptions::new().progress_callback(&mut watch);
        let bytes = text.as_bytes();
        let mut read = |offset: usize, _| bytes.get(offset..).unwrap_or_default();
        let tree = parser.parse_with_options(&mut read, None, Some(options));
        // After a stop it would go on where it was.
        parser.reset();
        tree.map(|tree| Syntax { text, tree })
    })
}

/// What the grammar makes of a script that has only plain commands; nothing if it has anything else.
pub(super) fn sketch(text: &str) -> Option<Sketch> {
    let syntax = parse(text)?;
    let root = syntax.tree.root_node();
    if root.kind() != "program" || root.has_error() {
        return None;
    }
    let mut steps = Vec::new();
    let mut awaits_separator = false;
    for child in children(root) {
        match (child.kind(), awaits_separator) {
            (";", true) => awaits_separator = false,
            (_, false) => {
                statement(&syntax, child, Join::Then, &mut steps)?;
                awaits_separator = true;
            }
            _ => return None,
        }
    }
    Some(Sketch { steps })
}

/// All at once: asking for one child by its number walks over those before it.
pub(in crate::exec) fn children(node: Node<'_>) -> std::vec::IntoIter<Node<'_>> {
    let mut cursor = node.walk();
    let children: Vec<_> = node.children(&mut cursor).collect();
    children.into_iter()
}

/// A command, a pipeline, or a list of those. Lists lean to the left: `a && b || c` is `(a && b) || c`.
fn statement(syntax: &Syntax<'_>, node: Node<'_>, join: Join, steps: &mut Vec<SketchStep>) -> Option<()> {
    let mut rights = Vec::new();
    let mut leftmost = node;
    while leftmost.kind() == "list" {
        let mut parts = children(leftmost);
        let (left, operator, right) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || right.kind() == "list" {
            return None;
        }
        let join = match operator.kind() {
            "&&" => Join::And,
            "||" => Join::Or,
            _ => return None,
        };
        rights.push((join, right));
        leftmost = left;
    }
    steps.push(SketchStep { join, commands: pipeline(syntax, leftmost)? });
    for (join, right) in rights.into_iter().rev() {
        steps.push(SketchStep { join, commands: pipeline(syntax, right)? });
    }
    Some(())
}

fn pipeline(syntax: &Syntax<'_>, node: Node<'_>) -> Option<Vec<Vec<String>>> {
    if node.kind() == "command" {
        return Some(vec![command(syntax, node)?]);
    }
    if node.kind() != "pipeline" {
        return None;
    }
    let mut commands = Vec::new();
    for (index, child) in children(node).enumerate() {
        match (index % 2, child.kind()) {
            (0, "command") => commands.push(command(syntax, child)?),
            (1, "|") => {}
            _ => return None,
        }
    }
    Some(commands)
}

fn command(syntax: &Syntax<'_>, node: Node<'_>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for (index, child) in children(node).enumerate() {
        let child = match (index, child.kind()) {
            (0, "command_name") if child.child_count() == 1 => child.child(0)?,
            (0, _) => return None,
            _ => child,
        };
        words.push(word(syntax, child)?);
    }
    Some(words)
}

fn word(syntax: &Syntax<'_>, node: Node<'_>) -> Option<String> {
    if node.kind() == "concatenation" {
        let parts: Option<Vec<_>> = children(node).map(|part| plain(syntax, part)).collect();
        return parts.map(|parts| parts.concat());
    }
    plain(syntax, node)
}

/// A word without parts.
fn plain(syntax: &Syntax<'_>, node: Node<'_>) -> Option<String> {
    let text = syntax.of(node);
    match node.kind() {
        "word" => Some(without_escapes(text)),
        "number" if node.child_count() == 0 => Some(text.to_owned()),
        "raw_string" => Some(text.strip_prefix('\'')?.strip_suffix('\'')?.to_owned()),
        "string" => {
            let known = children(node).all(|part| matches!(part.kind(), "\"" | "string_content"));
            let inside = text.strip_prefix('"')?.strip_suffix('"')?;
            known.then(|| without_quoted_escapes(inside))
        }
        _ => None,
    }
}

fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut escaped = false;
    for character in text.chars() {
        if character == '\\' && !escaped {
            escaped = true;
        } else {
            plain.push(character);
            escaped = false;
        }
    }
    plain
}

/// Inside double quotes a backslash is itself, except before four characters.
fn without_quoted_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (before, after) = rest.split_at(at);
        plain.push_str(before);
        let mut following = after.chars();
        following.next();
        match following.next() {
            Some(special @ ('$' | '`' | '"' | '\\')) => plain.push(special),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
        rest = following.as_str();
    }
    plain.push_str(rest);
    plain
}
