//! What a source file looks like: it says what it is for, it can be read in one sitting, and nothing in it waits to be
//! written.

use crate::workspace::{read, rust_files};

/// A file that grows past this wants to be two.
const LINES: usize = 600;

/// Left-overs of unfinished work. Written in two halves, so that this file has none of them.
const UNFINISHED: [&str; 3] =
    [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[", "ignore")];

fn in_src(file: &str) -> bool {
    file.contains("/src/")
}

#[test]
fn a_module_begins_with_what_it_is_for() {
    let silent: Vec<_> = rust_files()
        .into_iter()
        .filter(|file| in_src(file))
        .filter(|file| {
            let text = read(file);
            let first = text.lines().next().unwrap_or_default();
            first.strip_prefix("//!").is_none_or(|paragraph| paragraph.trim().is_empty())
        })
        .collect();
    assert!(
        silent.is_empty(),
        "these files do not start with a `//!` paragraph (what it is for, what it owns, what it never does):\n  {}",
        silent.join("\n  ")
    );
}

#[test]
fn a_file_can_be_read_in_one_sitting() {
    let long: Vec<_> = rust_files()
        .into_iter()
        .map(|file| (read(&file).lines().count(), file))
        .filter(|(lines, _)| *lines > LINES)
        .map(|(lines, file)| format!("{file}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "files past {LINES} lines want to be two:\n  {}", long.join("\n  "));
}

#[test]
fn nothing_waits_to_be_written() {
    let mut found = Vec::new();
    for file in rust_files().into_iter().filter(|file| in_src(file)) {
        for (number, line) in read(&file).lines().enumerate() {
            found.extend(
                UNFINISHED
                    .iter()
                    .filter(|word| line.contains(**word))
                    .map(|word| format!("{file}:{}: {word}", number + 1)),
            );
        }
    }
    assert!(found.is_empty(), "finish or remove:\n  {}", found.join("\n  "));
}
