//! `$include`: a config made of several files.
//!
//! Owns the rules of including: a string or a list of strings, relative to the including file, at most ten files
//! deep, never in a circle; listed files merge from left to right and sibling keys win. Reads only through the
//! function it is given, and reports every include that fails.

use std::io;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};

use crate::document::{self, At};
use crate::problem::{Problem, ProblemKind};

/// The key that stands for the content of other files.
pub(crate) const INCLUDE_KEY: &str = "$include";
const MAX_DEPTH: usize = 10;
/// Depth alone does not bound the work: ten files that each include ten others are ten thousand million.
const MAX_FILES: usize = 256;

/// How an included file is read.
pub(crate) type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// A document with its includes in place.
#[derive(Debug, PartialEq)]
pub(crate) struct Included {
    pub(crate) document: Value,
    pub(crate) problems: Vec<Problem>,
}

/// Replaces every `$include` in a document that was read from `file`. A failed include leaves an empty object.
pub(crate) fn resolve(document: &Value, file: &Path, read: ReadFile<'_>) -> Included {
    let mut includer = Includer { read, problems: Vec::new(), files: 0 };
    let file = normalized(file);
    let document = includer.in_value(document, &Chain { file: &file, includer: None }, &At::ROOT);
    Included { document, problems: includer.problems }
}

/// The files that lead to the one being read, innermost first.
struct Chain<'a> {
    file: &'a Path,
    includer: Option<&'a Chain<'a>>,
}

impl<'a> Chain<'a> {
    fn files(&self) -> Vec<&'a Path> {
        let mut files: Vec<&Path> =
            std::iter::successors(Some(self), |link| link.includer).map(|l| l.file).collect();
        files.reverse();
        files
    }
}

struct Includer<'a> {
    read: ReadFile<'a>,
    problems: Vec<Problem>,
    files: usize,
}

impl Includer<'_> {
    fn in_value(&mut self, value: &Value, chain: &Chain<'_>, at: &At<'_>) -> Value {
        match value {
            Value::Array(items) => {
                let resolve = |(index, item)| self.in_value(item, chain, &at.index(index));
                Value::Array(items.iter().enumerate().map(resolve).collect())
            }
            Value::Object(map) => self.in_object(map, chain, at),
            other => other.clone(),
        }
    }

    fn in_object(&mut self, map: &Map<String, Value>, chain: &Chain<'_>, at: &At<'_>) -> Value {
        let mut siblings = Map::new();
        for (key, item) in map.iter().filter(|(key, _)| *key != INCLUDE_KEY) {
            siblings.insert(key.clone(), self.in_value(item, chain, &at.key(key)));
        }
        let Some(wanted) = map.get(INCLUDE_KEY) else { return Value::Object(siblings) };
        let included = match self.included(wanted, chain, at) {
            Ok(included) => included,
            Err(message) => {
                self.report(at, message);
                return Value::Object(siblings);
            }
        };
        if siblings.is_empty() {
            return included;
        }
        if !included.is_object() {
            self.report(at, "Sibling keys require included content to be an object".to_owned());
            return Value::Object(siblings);
        }
        merge(included, Value::Object(siblings))
    }

    /// The content an `$include` stands for. A file that fails is reported and counts as empty; the error is for
    /// an `$include` that names no file at all.
    fn included(&mut self, wanted: &Value, chain: &Chain<'_>, at: &At<'_>) -> Result<Value, String> {
        match wanted {
            Value::String(name) => Ok(self.file_or_empty(name, chain, at)),
            Value::Array(names) => {
                let mut merged = Value::Object(Map::new());
                for name in names {
                    let Value::String(name) = name else {
                        let found = script_type(name);
                        return Err(format!("Invalid $include array item: expected string, got {found}"));
                    };
                    merged = merge(merged, self.file_or_empty(name, chain, at));
                }
                Ok(merged)
            }
            other => {
                let found = script_type(other);
                Err(format!("Invalid $include value: expected string or array of strings, got {found}"))
            }
        }
    }

    fn file_or_empty(&mut self, name: &str, chain: &Chain<'_>, at: &At<'_>) -> Value {
        self.file(name, chain, at).unwrap_or_else(|message| {
            self.report(at, message);
            Value::Object(Map::new())
        })
    }

    fn file(&mut self, name: &str, chain: &Chain<'_>, at: &At<'_>) -> Result<Value, String> {
        let folder = chain.file.parent().unwrap_or(Path::new(""));
        let file = normalized(&folder.join(name));
        let files = chain.files();
        if files.contains(&file.as_path()) {
            let circle: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            return Err(format!("Circular include detected: {} -> {}", circle.join(" -> "), file.display()));
        }
        if files.len() > MAX_DEPTH {
            return Err(format!("Maximum include depth ({MAX_DEPTH}) exceeded at: {name}"));
        }
        self.files += 1;
        if self.files > MAX_FILES {
            return Err(format!("Maximum number of includes ({MAX_FILES}) exceeded at: {name}"));
        }
        let resolved = file.display();
        let text = (self.read)(&file).map_err(|error| {
            format!("Failed to read include file: {name} (resolved: {resolved}): {error}")
        })?;
        let document = document::parse(&text).map_err(|found| {
            for problem in found {
                self.report(at, format!("{resolved}: {problem}"));
            }
            format!("Failed to parse include file: {name} (resolved: {resolved})")
        })?;
        Ok(self.in_value(&document, &Chain { file: &file, includer: Some(chain) }, at))
    }

    fn report(&mut self, at: &At<'_>, message: String) {
        self.problems.push(Problem::new(ProblemKind::Include, at.key(INCLUDE_KEY).to_string(), message));
    }
}

/// Objects merge key by key, lists are joined, anything else is replaced by what comes later.
fn merge(earlier: Value, later: Value) -> Value {
    match (earlier, later) {
        (Value::Object(mut merged), Value::Object(later)) => {
            for (key, value) in later {
                let value = match merged.get_mut(&key) {
                    Some(held) => merge(held.take(), value),
                    None => value,
                };
                merged.insert(key, value);
            }
            Value::Object(merged)
        }
        (Value::Array(mut joined), Value::Array(later)) => {
            joined.extend(later);
            Value::Array(joined)
        }
        (_, later) => later,
    }
}

/// The type of a value in the words of the wire contract, where null and lists are objects.
fn script_type(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Null | Value::Array(_) | Value::Object(_) => "object",
    }
}

/// The path without `.` and `..`, by its text alone: a file that does not exist has a name too.
fn normalized(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if matches!(clean.components().next_back(), Some(Component::Normal(_))) => {
                clean.pop();
            }
            Component::ParentDir if clean.has_root() => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::cell::Cell;

    #[test]
    fn every_failing_include_is_reported_with_its_key_and_the_rest_survives() {
        let document = json!({"a": {"$include": "./none.json5", "x": 1}, "b": {"$include": 7}, "c": {"$include": "bad"}});
        let read = |file: &Path| match file.to_str() {
            Some("/c/bad") => Ok("{a: 1, a: 2}".to_owned()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        let included = resolve(&document, Path::new("/c/main.json5"), &read);
        let found: Vec<_> = included.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "a.$include: Failed to read include file: ./none.json5 (resolved: /c/none.json5): entity not found",
                "b.$include: Invalid $include value: expected string or array of strings, got number",
                "c.$include: /c/bad: a: the key is there twice in the same object; keep one of them",
                "c.$include: Failed to parse include file: bad (resolved: /c/bad)",
            ]
        );
        assert_eq!(included.document, json!({"a": {"x": 1}, "b": {}, "c": {}}));
    }

    #[test]
    fn a_fan_of_includes_is_bounded() {
        let reads = Cell::new(0);
        let read = |file: &Path| {
            reads.set(reads.get() + 1);
            let level: usize = file.file_name().unwrap().to_str().unwrap().parse().unwrap();
            let names = vec![(level + 1).to_string(); 10];
            Ok(json!({"$include": names}).to_string())
        };
        let included = resolve(&json!({"$include": "1"}), Path::new("/c/0"), &read);
        assert_eq!(reads.get(), MAX_FILES);
        assert!(!included.problems.is_empty());
    }

    #[test]
    fn paths_are_cleaned_by_their_text() {
        for (path, clean) in
            [("/c/./a/../b", "/c/b"), ("/../x", "/x"), ("../x", "../x"), ("a/../../x", "../x")]
        {
            assert_eq!(normalized(Path::new(path)), Path::new(clean), "{path}");
        }
    }

    proptest! {
        /// Six files that include each other at random: whatever the circle, it ends.
        #[test]
        fn including_never_loops(edges in proptest::collection::vec((0..6_usize, 0..6_usize), 0..14)) {
            let read = |file: &Path| {
                let own: usize = file.file_name().unwrap().to_str().unwrap().parse().unwrap();
                let names: Vec<_> = edges.iter().filter(|e| e.0 == own).map(|e| e.1.to_string()).collect();
                Ok(json!({"$include": names, "k": own}).to_string())
            };
            let included = resolve(&json!({"$include": "0"}), Path::new("/c/main"), &read);
            prop_assert!(included.document.is_object());
        }
    }
}
