//! The papers: their links lead somewhere, and every error has a place that says what to do.

use std::path::Path;

use tidegate_protocol::ErrorCode;

use crate::workspace::{files, read, root};

fn pages() -> Vec<String> {
    let is_page = |file: &String| Path::new(file).extension().is_some_and(|extension| extension == "md");
    files().into_iter().filter(is_page).collect()
}

/// The targets of `[text](target)` outside code blocks.
fn links(page: &str) -> Vec<String> {
    let mut in_code = false;
    let mut found = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if !in_code {
            let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(targets.map(str::to_owned));
        }
    }
    found
}

/// The anchor a heading gets: lower case, spaces become dashes, other marks go.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn has_anchor(page: &str, wanted: &str) -> bool {
    page.lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')))
        .any(|heading| anchor(heading) == wanted)
}

#[test]
fn every_link_leads_somewhere() {
    let mut dead = Vec::new();
    for page in pages() {
        let text = read(&page);
        for link in links(&text) {
            if link.starts_with("http://") || link.starts_with("https://") || link.starts_with("mailto:") {
                continue;
            }
            let (target, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let folder = Path::new(&page).parent().unwrap();
            let file = if target.is_empty() { root().join(&page) } else { root().join(folder).join(target) };
            let anchored = || std::fs::read_to_string(&file).is_ok_and(|text| has_anchor(&text, anchor));
            if !file.exists() || (!anchor.is_empty() && !anchored()) {
                dead.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere:\n  {}", dead.join("\n  "));
}

#[test]
fn every_error_code_has_a_place_that_says_what_to_do() {
    let page = read("docs/troubleshooting.md");
    let missing: Vec<_> = ErrorCode::ALL
        .iter()
        .map(|code| code.as_str())
        .filter(|code| !page.lines().any(|line| line.starts_with('#') && line.contains(&format!("`{code}`"))))
        .collect();
    assert!(missing.is_empty(), "docs/troubleshooting.md has no heading for: {}", missing.join(", "));
}

#[test]
fn links_and_anchors_are_read_as_a_browser_would() {
    assert_eq!(links("a [b](c.md#d) [e](f)\n```\n[no](no)\n```\n"), ["c.md#d", "f"]);
    assert_eq!(anchor("`HOME_BUSY`: another process"), "home_busy-another-process");
    assert!(has_anchor("x\n## The way of one message\n", "the-way-of-one-message"));
}
