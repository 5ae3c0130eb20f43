//! The input as rows: broken where the terminal ends, with the cursor's place, and only so many of them.

use super::super::line::{BLUE, Line, PLAIN};
use super::text::Text;
use crate::cells::{cluster_cells, clusters};

const PROMPT: &str = "› ";
const INDENT: &str = "  ";

/// What is drawn of the input.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::chat) struct Shown {
    pub(in crate::chat) rows: Vec<Line>,
    /// Row among those, and cell in the row.
    pub(in crate::chat) cursor: (usize, usize),
}

pub(super) fn shown(text: &Text, width: usize, most_rows: usize) -> Shown {
    let room = width.saturating_sub(INDENT.len() + 1).max(4);
    let mut rows = vec![String::new()];
    let mut used = 0;
    let mut cursor = (0, 0);
    let mut at = 0;
    for cluster in clusters(text.as_str()) {
        if at == text.before().len() {
            cursor = place(&rows, used);
        }
        at += cluster.len();
        if cluster == "\n" {
            rows.push(String::new());
            used = 0;
            continue;
        }
        let (sign, wide) = if cluster == "\t" { ("    ", 4) } else { (cluster, cluster_cells(cluster)) };
        if used + wide > room {
            rows.push(String::new());
            used = 0;
        }
        if let Some(row) = rows.last_mut() {
            row.push_str(sign);
        }
        used += wide;
    }
    if text.after().is_empty() {
        cursor = place(&rows, used);
    }
    window(&rows, cursor, most_rows.max(1))
}

fn place(rows: &[String], used: usize) -> (usize, usize) {
    (rows.len() - 1, used + INDENT.len())
}

/// The rows around the cursor.
fn window(rows: &[String], cursor: (usize, usize), most: usize) -> Shown {
    let first = (cursor.0 + 1).saturating_sub(most);
    let drawn = rows.iter().enumerate().skip(first).take(most).map(|(at, row)| {
        let (lead, style) = if at == 0 { (PROMPT, BLUE) } else { (INDENT, PLAIN) };
        Line::styled(style, lead).then(PLAIN, row.as_str())
    });
    Shown { rows: drawn.collect(), cursor: (cursor.0 - first, cursor.1) }
}
