//! Paths no command may name: our own state.
//!
//! It looks at words, not at the disk: a link or a pattern can still lead there, which is for the sandbox to prevent.

use std::borrow::Cow;

use super::ExecPolicy;
use super::paths::{absolute, is_inside};
use super::plan::Plan;

/// The forbidden path that a plan names, if it names one.
pub(super) fn named<'a>(plan: &Plan, policy: &'a ExecPolicy) -> Option<&'a str> {
    let words = if policy.forbidden.is_empty() { Vec::new() } else { words(plan) };
    let roots: Vec<_> = policy.roots.iter().map(|root| absolute(root, "/")).collect();
    let mut forbidden = policy.forbidden.iter();
    forbidden
        .find(|path| {
            let path = absolute(path, "/");
            // A bare name stays in the folder, which is far from most forbidden places.
            let is_near = is_inside(plan.cwd(), &path) || is_inside(&path, plan.cwd());
            let leads_there = |candidate: &str| {
                let target = absolute(candidate, plan.cwd());
                is_inside(&target, &path) && !roots.iter().any(|root| is_inside(&target, root))
            };
            words
                .iter()
                .filter(|word| is_near || word.contains('/') || word.contains(".."))
                .any(|word| candidates(word).into_iter().any(leads_there))
        })
        .map(String::as_str)
}

/// Everything in a plan that could be a path.
fn words(plan: &Plan) -> Vec<Cow<'_, str>> {
    let mut words = vec![Cow::Borrowed(plan.cwd())];
    for launch in plan.launches() {
        words.push(launch.program.path.as_str().into());
        if plan.opaque().is_none() {
            words.extend(launch.argv.iter().map(|word| Cow::Borrowed(word.as_str())));
        }
    }
    words.extend(plan.added_env().values().map(|value| Cow::Borrowed(value.as_str())));
    if let Some(opaque) = plan.opaque() {
        let script: String =
            opaque.script.chars().filter(|character| !"'\"\\".contains(*character)).collect();
        let ends = |character: char| character.is_whitespace() || "|&;<>()`".contains(character);
        let home = plan.env().get("HOME").map_or("", String::as_str);
        words.extend(script.split(ends).map(|word| Cow::Owned(with_home(word, home))));
    }
    words
}

fn with_home(word: &str, home: &str) -> String {
    if !word.contains(['$', '~']) {
        return word.to_owned();
    }
    let word = word.replace("${HOME}", home).replace("$HOME", home);
    match word.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{home}{rest}"),
        _ => word,
    }
}

/// A path can be the whole word or stand behind an option, a `=`, a `:`, a `,` or an `@`.
fn candidates(word: &str) -> Vec<&str> {
    let mut starts = vec![0];
    starts.extend(word.match_indices(['=', ':', ',', '@', ' ', '\'', '"']).map(|(at, _)| at + 1));
    starts.extend(word.find('/').filter(|_| word.starts_with('-')));
    let tails = starts.into_iter().filter_map(|at| word.get(at..));
    let cut = |tail: &str| tail.find([':', ',', ' ', '\'', '"']).unwrap_or(tail.len());
    tails.flat_map(|tail| [tail, &tail[..cut(tail)]]).filter(|candidate| !candidate.is_empty()).collect()
}
