//! The files of a workspace that are part of the instructions, each bounded, and all of them together.

use super::system::{BootstrapFile, PromptMode, Scene};

/// Characters of one file at most, unless its owner says otherwise.
const LONGEST: usize = 20_000;
/// Characters of all of them at most.
const ALL: usize = 60_000;
/// Of a file that is too long, this share of its beginning and of its end is shown, in hundredths.
const BEGINNING: usize = 70;
const END: usize = 20;

/// What runs that another run started are shown.
const FOR_TASKS: [&str; 2] = ["AGENTS.md", "TOOLS.md"];
/// What the owner alone may read, wherever strangers listen.
const PRIVATE: &str = "MEMORY.md";

/// A file as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown<'a> {
    pub(super) name: &'a str,
    /// Characters it has.
    pub(super) all: usize,
    pub(super) text: String,
}

/// The files that are shown, in their order. Missing and empty ones are not mentioned.
pub(super) fn shown(scene: &Scene) -> Vec<Shown<'_>> {
    let longest = scene.longest_file.unwrap_or(LONGEST);
    if longest == 0 {
        return Vec::new();
    }
    let mut left = ALL;
    let mut files = Vec::new();
    for (file, text) in scene.files.iter().filter_map(|file| Some((file, file.text.as_deref()?.trim()))) {
        if text.is_empty() || !is_for(scene, file) {
            continue;
        }
        let text_shown = bounded(&file.name, text, longest.min(left));
        left = left.saturating_sub(text_shown.chars().count());
        files.push(Shown { name: &file.name, all: text.chars().count(), text: text_shown });
    }
    files
}

fn is_for(scene: &Scene, file: &BootstrapFile) -> bool {
    match scene.mode {
        PromptMode::Full => !(scene.group && file.name.eq_ignore_ascii_case(PRIVATE)),
        PromptMode::Minimal => FOR_TASKS.contains(&file.name.as_str()),
        PromptMode::Bare => false,
    }
}

/// A text of at most `most` characters; where something is missing, a line says how much.
fn bounded(name: &str, text: &str, most: usize) -> String {
    let all = text.chars().count();
    if all <= most {
        return text.to_owned();
    }
    let (beginning, end) = (share(most, BEGINNING), share(most, END));
    let missing = all.saturating_sub(beginning + end);
    let head: String = text.chars().take(beginning).collect();
    let tail: String = text.chars().skip(all.saturating_sub(end)).collect();
    let note = format!("[{missing} of {all} characters are left out here; all of it is in {name}]");
    let parts = [head.trim_end(), &note, tail.trim_start()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn share(of: usize, hundredths: usize) -> usize {
    of.saturating_mul(hundredths) / 100
}
