//! A table that fits: columns that line up, cells broken where there is no room, and one line a cell when even that does
//! not help. Pure.

use super::super::line::{BOLD, DIM, Line, PLAIN};
use super::super::wrap::{Break, Lead, rows};
use super::inline::{Source, inline};

/// Between two columns.
const GAP: usize = 2;
/// A column narrower than this cannot be read.
const NARROWEST: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

pub(super) fn table(source: &[String], width: usize) -> Vec<Line> {
    let mut lines: Vec<Vec<String>> = source.iter().map(|line| cells_of(line)).collect();
    let ruled = lines.get(1).is_some_and(|cells| cells.iter().all(|cell| is_rule(cell)));
    let sides: Vec<Side> =
        if ruled { lines.remove(1).iter().map(|cell| side(cell)).collect() } else { Vec::new() };
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let laid: Vec<Vec<Line>> = lines
        .iter()
        .enumerate()
        .map(|(at, cells)| {
            let base = if at == 0 && ruled { BOLD } else { PLAIN };
            let cell = |at: usize| cells.get(at).map_or("", String::as_str);
            (0..columns).map(|at| inline(cell(at), base, Source::Whole).line).collect()
        })
        .collect();
    let wanted: Vec<usize> = (0..columns)
        .map(|at| laid.iter().filter_map(|row| row.get(at)).map(Line::cells).max().unwrap_or(0).max(1))
        .collect();
    match shrunk(&wanted, width.saturating_sub(GAP * columns.saturating_sub(1))) {
        Some(widths) => in_columns(&laid, &widths, &sides, ruled),
        None => one_below_the_other(&laid, ruled, width),
    }
}

/// The cells of a line. A bar in code or after a backslash belongs to its cell.
fn cells_of(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let (mut code, mut escaped) = (false, false);
    for c in line.chars() {
        if c == '|' && !code && !escaped {
            cells.push(String::new());
        } else if let Some(cell) = cells.last_mut() {
            if c == '|' && escaped {
                cell.pop();
            }
            cell.push(c);
            code ^= c == '`' && !escaped;
        }
        escaped = c == '\\' && !escaped;
    }
    if cells.len() > 1 && cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

fn is_rule(cell: &str) -> bool {
    cell.contains('-') && cell.chars().all(|c| matches!(c, '-' | ':'))
}

fn side(rule: &str) -> Side {
    if rule.ends_with(':') && !rule.starts_with(':') { Side::Right } else { Side::Left }
}

/// Widths that fit: the widest columns give way first. Nothing when there is no room for columns.
fn shrunk(wanted: &[usize], room: usize) -> Option<Vec<usize>> {
    let least: usize = wanted.iter().map(|wide| (*wide).min(NARROWEST)).sum();
    if least > room {
        return None;
    }
    let mut widths = wanted.to_vec();
    while widths.iter().sum::<usize>() > room {
        let widest = widths.iter_mut().max()?;
        *widest -= 1;
    }
    Some(widths)
}

fn in_columns(laid: &[Vec<Line>], widths: &[usize], sides: &[Side], ruled: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    for (at, row) in laid.iter().enumerate() {
        let broken: Vec<Vec<Line>> = row
            .iter()
            .zip(widths)
            .map(|(cell, wide)| {
                let cell = rows(cell, &Lead::default(), *wide, 0, Break::Words);
                cell.into_iter().map(|row| row.line).collect()
            })
            .collect();
        let height = broken.iter().map(Vec::len).max().unwrap_or(0);
        for layer in 0..height {
            lines.push(layer_of(&broken, widths, sides, layer));
        }
        if at == 0 && ruled {
            let rules: Vec<String> = widths.iter().map(|wide| "─".repeat(*wide)).collect();
            lines.push(Line::styled(DIM, rules.join(&" ".repeat(GAP))));
        }
    }
    lines
}

/// One row of the terminal through all columns.
fn layer_of(broken: &[Vec<Line>], widths: &[usize], sides: &[Side], layer: usize) -> Line {
    let mut line = Line::default();
    let mut owed = 0;
    for (at, (cell, wide)) in broken.iter().zip(widths).enumerate() {
        let text = cell.get(layer).cloned().unwrap_or_default();
        let blank = wide.saturating_sub(text.cells());
        let right = sides.get(at) == Some(&Side::Right);
        let before = owed + if right { blank } else { 0 };
        if text.spans().is_empty() {
            owed += wide + GAP;
        } else {
            line.push(PLAIN, &" ".repeat(before));
            line.append(&text);
            owed = GAP + if right { 0 } else { blank };
        }
    }
    line
}

/// `title: text`, a line for each cell, and a blank line between rows.
fn one_below_the_other(laid: &[Vec<Line>], ruled: bool, width: usize) -> Vec<Line> {
    let (titles, body) = match laid.split_first() {
        Some((titles, body)) if ruled => (Some(titles), body),
        _ => (None, laid),
    };
    let mut lines = Vec::new();
    // Only the titles have come yet.
    if let (Some(titles), true) = (titles, body.is_empty()) {
        lines.extend(titles.iter().map(|title| title.cut(width)));
    }
    for (at, row) in body.iter().enumerate() {
        if at > 0 {
            lines.push(Line::default());
        }
        for (column, cell) in row.iter().enumerate().filter(|(_, cell)| !cell.spans().is_empty()) {
            let mut line = Line::default();
            if let Some(title) =
                titles.and_then(|titles| titles.get(column)).filter(|title| !title.spans().is_empty())
            {
                line.append(title);
                line.push(BOLD, ": ");
            }
            line.append(cell);
            let lead = Lead { first: Line::default(), rest: Line::styled(PLAIN, "  ") };
            lines.extend(rows(&line, &lead, width, 0, Break::Words).into_iter().map(|row| row.line));
        }
    }
    lines
}
