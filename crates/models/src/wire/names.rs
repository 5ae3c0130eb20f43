//! Tools' names as vendors take them: letters, digits, `_` and `-`, at most 64. Ours may have dots and more.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::digest::short;
use crate::request::ToolSpec;

/// Most characters every vendor takes.
const MOST: usize = 64;

/// Digits that tell a name from one that looks the same.
const MARK: usize = 8;

/// The names of a request's tools, both ways.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    to: HashMap<String, String>,
    from: HashMap<String, String>,
}

impl Names {
    /// Whatever the order of the tools, a name becomes the same; one that is right already stays.
    pub(crate) fn new(tools: &[ToolSpec]) -> Self {
        let mut wanted: HashMap<Cow<'_, str>, usize> = HashMap::new();
        for tool in tools {
            *wanted.entry(fitting(&tool.name)).or_default() += 1;
        }
        let mut names = Self::default();
        for ToolSpec { name, .. } in tools {
            let wire = fitting(name);
            if wire == *name {
                continue;
            }
            let wire = if wanted.get(&wire) == Some(&1) { wire.into_owned() } else { marked(name, &wire) };
            names.from.insert(wire.clone(), name.clone());
            names.to.insert(name.clone(), wire);
        }
        names
    }

    /// Also for tools that only the history knows.
    pub(crate) fn to_wire<'a>(&'a self, name: &'a str) -> Cow<'a, str> {
        self.to.get(name).map_or_else(|| fitting(name), |wire| Cow::Borrowed(wire))
    }

    /// A name that is none of ours stays: the model made it up and shall be told so.
    #[expect(clippy::wrong_self_convention, reason = "it is the way back of `to_wire`")]
    pub(crate) fn from_wire<'a>(&'a self, wire: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(self.from.get(wire).map_or(wire, String::as_str))
    }
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn fitting(name: &str) -> Cow<'_, str> {
    if name.is_empty() {
        return Cow::Borrowed("_");
    }
    if name.chars().all(is_allowed) && name.len() <= MOST {
        return Cow::Borrowed(name);
    }
    let safe: String = name.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
    Cow::Owned(if safe.len() > MOST { marked(name, &safe) } else { safe })
}

fn marked(name: &str, safe: &str) -> String {
    let stem: String = safe.chars().take(MOST - 1 - MARK).collect();
    format!("{stem}_{}", short(name, MARK))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tools(names: &[&str]) -> Vec<ToolSpec> {
        let tool = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: json!({}),
        };
        names.iter().map(tool).collect()
    }

    #[test]
    fn a_dot_becomes_a_line_and_comes_back_as_a_dot() {
        let names = Names::new(&tools(&["files.read", "exec"]));
        assert_eq!(names.to_wire("files.read"), "files_read");
        assert_eq!(names.from_wire("files_read"), "files.read");
        assert_eq!(names.to_wire("exec"), "exec");
        assert_eq!(names.from_wire("exec"), "exec");
    }

    #[test]
    fn a_name_that_is_right_is_never_taken_by_another() {
        let names = Names::new(&tools(&["a.b", "a_b", "a/b"]));
        assert_eq!(names.to_wire("a_b"), "a_b");
        assert_eq!(names.from_wire("a_b"), "a_b");
        assert_eq!(names.to_wire("a.b"), format!("a_b_{}", short("a.b", 8)));
        assert_eq!(names.to_wire("a/b"), format!("a_b_{}", short("a/b", 8)));
    }

    #[test]
    fn names_nobody_offers_still_fit_and_made_up_ones_stay() {
        let names = Names::new(&[]);
        assert_eq!(names.to_wire("gone.tool"), "gone_tool");
        assert_eq!(names.from_wire("made_up"), "made_up");
    }

    proptest! {
        #[test]
        fn every_name_fits_is_its_own_and_comes_back(
            set in prop::collection::hash_set("[a-c._/é-]{0,4}|[a-b.]{60,70}", 0..8),
        ) {
            let list: Vec<&str> = set.iter().map(String::as_str).collect();
            let names = Names::new(&tools(&list));
            let mut seen = std::collections::HashSet::new();
            for name in list {
                let wire = names.to_wire(name).into_owned();
                prop_assert!(wire.chars().all(is_allowed) && (1..=MOST).contains(&wire.len()), "{wire}");
                prop_assert_eq!(names.from_wire(&wire), name);
                prop_assert!(seen.insert(wire));
            }
        }
    }
}
