//! A conversation as Markdown.

use std::fmt::Write as _;

use tidegate_runtime::iso_timestamp;

use super::story::{Outcome, Piece, Story};

pub(super) fn render(story: &Story) -> String {
    let mut out = format!("# {}\n\n{}, {}\n", story.title, story.name, iso_timestamp(story.created_at));
    for (number, turn) in story.turns.iter().enumerate() {
        let _ = write!(out, "\n## {} ({})\n", number + 1, iso_timestamp(turn.at));
        for piece in &turn.pieces {
            out.push('\n');
            out.push_str(&piece_of(piece));
        }
    }
    out
}

fn piece_of(piece: &Piece) -> String {
    match piece {
        Piece::User(text) => format!("**User**\n\n{}\n", text.trim_end()),
        Piece::Assistant { model, text } => format!("**Assistant** ({model})\n\n{}\n", text.trim_end()),
        Piece::Image { mime_type } => format!("*(an image, {mime_type})*\n"),
        Piece::Call { name, arguments, result } => {
            let mut inside = fenced(arguments, "json");
            let failed = result.as_ref().is_some_and(|result| result.failed);
            match result {
                Some(result) => {
                    inside.push('\n');
                    inside.push_str(&fenced(&result.text, ""));
                }
                None => inside.push_str("\n*(interrupted: no result)*\n"),
            }
            folded(name, failed, &inside)
        }
        Piece::Result { name, outcome: Outcome { text, failed } } => folded(name, *failed, &fenced(text, "")),
        Piece::Summary(summary) => {
            let quoted: Vec<String> = summary.lines().map(|line| format!("> {line}\n")).collect();
            format!("**Summed up**\n\n{}", quoted.concat())
        }
        Piece::Unknown => "*(a line of a newer release)*\n".to_owned(),
    }
}

fn folded(name: &str, failed: bool, inside: &str) -> String {
    let name = super::html::escaped(name);
    let failed = if failed { " (failed)" } else { "" };
    format!("<details><summary>Tool: {name}{failed}</summary>\n\n{inside}\n</details>\n")
}

/// A block of code that its own text cannot end.
fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}
