//! Dot paths: the way people name a key (`gateway.port`, `agents.list[0].id`).
//!
//! Owns parsing and rendering of paths, and reading and changing a [`Value`] through one. A list is never turned
//! into an object on the way, and a value that is there is never dropped to make room for a parent. Works on
//! data only; changing the text of a file is the job of [`crate::edit`].

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

/// Names that a program in a dynamic language would take for something else; never a key of ours.
const FORBIDDEN: [&str; 3] = ["__proto__", "prototype", "constructor"];

/// Setting this segment of a parent that does not exist makes a list: `agents.list[0].id` in an empty file.
pub(crate) const FIRST: &str = "0";

/// A path that cannot be read, or that does not fit the document it is used on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    #[error("Invalid path. Use dot notation (e.g. foo.bar).")]
    Notation,
    #[error("Invalid path segment.")]
    Segment,
    #[error("{at} holds {found}, which has no keys; unset it first or choose another path")]
    NoKeys { at: String, found: &'static str },
    #[error("{at} is a list of {len}: use an index from 0 to {len} (the last one appends)")]
    OutOfRange { at: String, len: usize },
    #[error("{at} is not set in this file")]
    NotSet { at: String },
    #[error("{at} has a mask in a place where no secret was: write the secret itself, or a ${{VAR}}")]
    Masked { at: String },
}

impl PathError {
    pub fn code(&self) -> &'static str {
        crate::problem::code::PATH
    }
}

/// A non-empty path of keys and list indexes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyPath(Vec<String>);

impl KeyPath {
    pub fn from_segments<S: Into<String>>(segments: impl IntoIterator<Item = S>) -> Result<Self, PathError> {
        let segments: Vec<String> = segments.into_iter().map(Into::into).collect();
        if segments.is_empty() || segments.iter().any(String::is_empty) {
            return Err(PathError::Notation);
        }
        if segments.iter().any(|segment| FORBIDDEN.contains(&segment.as_str())) {
            return Err(PathError::Segment);
        }
        Ok(Self(segments))
    }

    pub fn segments(&self) -> &[String] {
        &self.0
    }

    /// The path up to and including the segment at `index`, for messages.
    pub(crate) fn up_to(&self, index: usize) -> String {
        Self(self.0[..=index].to_vec()).to_string()
    }
}

impl FromStr for KeyPath {
    type Err = PathError;

    /// Dots separate keys, `[0]` is a list index, and a backslash takes the next character as it is
    /// (`models.providers.my\.provider`). Blanks around a segment do not count.
    fn from_str(raw: &str) -> Result<Self, PathError> {
        let mut segments = Vec::new();
        // `None` right after an index, where a dot, another index or the end follows.
        let mut open = Some(Segment::default());
        let mut rest = raw;
        while let Some(character) = rest.chars().next() {
            if let Some((index, remaining)) = leading_index(rest) {
                segments.extend(open.take().map(Segment::finish));
                segments.push(index);
                rest = remaining;
                continue;
            }
            rest = &rest[character.len_utf8()..];
            match character {
                '.' => segments.extend(open.replace(Segment::default()).map(Segment::finish)),
                '\\' => {
                    let verbatim = rest.chars().next().unwrap_or('\\');
                    rest = rest.strip_prefix(verbatim).unwrap_or(rest);
                    open.get_or_insert_default().push_verbatim(verbatim);
                }
                other => open.get_or_insert_default().push(other),
            }
        }
        segments.extend(open.map(Segment::finish));
        Self::from_segments(segments)
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            for character in segment.chars() {
                if matches!(character, '\\' | '.' | '[') || character.is_whitespace() {
                    f.write_str("\\")?;
                }
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

/// A segment while it is read: escaped characters survive the trimming of blanks.
#[derive(Default)]
struct Segment {
    text: String,
    verbatim_until: usize,
}

impl Segment {
    fn push(&mut self, character: char) {
        if !(self.text.is_empty() && character.is_whitespace()) {
            self.text.push(character);
        }
    }

    fn push_verbatim(&mut self, character: char) {
        self.text.push(character);
        self.verbatim_until = self.text.len();
    }

    fn finish(mut self) -> String {
        self.text.truncate(self.text.trim_end().len().max(self.verbatim_until));
        self.text
    }
}

/// `[12]` at the start of the rest of a path, when a new segment or the end follows it.
fn leading_index(rest: &str) -> Option<(String, &str)> {
    let (inside, remaining) = rest.strip_prefix('[')?.split_once(']')?;
    let whole = remaining.is_empty() || remaining.starts_with(['.', '[']);
    (whole && list_index(inside).is_some()).then(|| (inside.to_owned(), remaining))
}

/// A list index in its one spelling: `0`, `12`, never `01` or `+1`.
pub(crate) fn list_index(segment: &str) -> Option<usize> {
    let canonical = segment == "0"
        || (!segment.starts_with('0') && !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_digit()));
    if canonical { segment.parse().ok() } else { None }
}

/// What a value is, in the words of an error message.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The value at a path, if there is one.
pub(crate) fn get<'v>(root: &'v Value, path: &KeyPath) -> Option<&'v Value> {
    path.0.iter().try_fold(root, |value, segment| match value {
        Value::Object(map) => map.get(segment),
        Value::Array(items) => items.get(list_index(segment)?),
        _ => None,
    })
}

/// Sets the value at a path. A missing parent becomes an object, or a list when its first element is set; an index
/// edits the element of a list, and the index one past the end appends.
pub(crate) fn set(root: &mut Value, path: &KeyPath, value: Value) -> Result<(), PathError> {
    let Some((last, parents)) = path.0.split_last() else { return Err(PathError::Notation) };
    let mut place = root;
    for (depth, segment) in parents.iter().enumerate() {
        place = child_or_new(place, segment, path, depth)?;
    }
    *child_or_new(place, last, path, parents.len())? = value;
    Ok(())
}

/// The child a segment names, made as null when it is missing. `depth` says where in `path` the segment stands.
fn child_or_new<'v>(
    parent: &'v mut Value,
    segment: &str,
    path: &KeyPath,
    depth: usize,
) -> Result<&'v mut Value, PathError> {
    let at = || if depth == 0 { "the file".to_owned() } else { path.up_to(depth - 1) };
    if parent.is_null() {
        *parent = if segment == FIRST { Value::Array(Vec::new()) } else { Value::Object(Map::new()) };
    }
    let found = kind_of(parent);
    match parent {
        Value::Object(map) => Ok(map.entry(segment).or_insert(Value::Null)),
        Value::Array(items) => {
            let len = items.len();
            let index = list_index(segment).filter(|index| *index <= len);
            let Some(index) = index else { return Err(PathError::OutOfRange { at: at(), len }) };
            if index == len {
                items.push(Value::Null);
            }
            Ok(&mut items[index])
        }
        _ => Err(PathError::NoKeys { at: at(), found }),
    }
}

/// Removes the value at a path and every object above it that is empty then. Says whether there was one.
pub(crate) fn unset(root: &mut Value, path: &KeyPath) -> bool {
    let removed = remove(root, &path.0);
    if removed {
        prune_parents(root, path);
    }
    removed
}

fn remove(value: &mut Value, segments: &[String]) -> bool {
    match (segments, value) {
        ([last], Value::Object(map)) => map.shift_remove(last).is_some(),
        ([last], Value::Array(items)) => {
            let index = list_index(last).filter(|index| *index < items.len());
            index.is_some_and(|index| {
                items.remove(index);
                true
            })
        }
        ([first, rest @ ..], Value::Object(map)) => {
            map.get_mut(first).is_some_and(|child| remove(child, rest))
        }
        ([first, rest @ ..], Value::Array(items)) => {
            let child = list_index(first).and_then(|index| items.get_mut(index));
            child.is_some_and(|child| remove(child, rest))
        }
        _ => false,
    }
}

/// Removes the parents of a path that are empty objects, from the inside out. The elements of a list stay: to
/// take one away would renumber the others.
pub(crate) fn prune_parents(root: &mut Value, path: &KeyPath) {
    for length in (1..path.0.len()).rev() {
        let parent = KeyPath(path.0[..length].to_vec());
        let holder_is_list = length > 1
            && get(root, &KeyPath(path.0[..length - 1].to_vec())).is_some_and(Value::is_array)
            || length == 1 && root.is_array();
        let empty = get(root, &parent).and_then(Value::as_object).is_some_and(Map::is_empty);
        if holder_is_list || !empty {
            return;
        }
        remove(root, &parent.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn path(text: &str) -> KeyPath {
        text.parse().unwrap()
    }

    #[test]
    fn brackets_name_list_elements_and_a_backslash_keeps_a_dot() {
        assert_eq!(path("agents.list[0].id").segments(), ["agents", "list", "0", "id"]);
        assert_eq!(path("a[1][2]").segments(), ["a", "1", "2"]);
        assert_eq!(path(r"models.providers.my\.provider.apiKey").segments()[2], "my.provider");
        assert_eq!(path("a[x].b").segments(), ["a[x]", "b"]);
        assert_eq!(path(" a . b ").segments(), ["a", "b"]);
        for bad in ["", "a.", "a..b", "[0]", ".", "a.[0]"] {
            assert_eq!(bad.parse::<KeyPath>(), Err(PathError::Notation), "{bad}");
        }
    }

    #[test]
    fn a_list_index_edits_appends_and_is_checked() {
        let mut root = json!({"a": [1, {"b": 2}]});
        set(&mut root, &path("a.1.b"), json!(3)).unwrap();
        set(&mut root, &path("a[2]"), json!("new")).unwrap();
        assert_eq!(root, json!({"a": [1, {"b": 3}, "new"]}));
        let error = set(&mut root, &path("a.9"), json!(0)).unwrap_err();
        assert_eq!(error, PathError::OutOfRange { at: "a".into(), len: 3 });
        assert!(set(&mut root, &path("a.key"), json!(0)).is_err());
        assert_eq!(root, json!({"a": [1, {"b": 3}, "new"]}));
    }

    #[test]
    fn the_first_element_of_a_missing_list_makes_the_list() {
        let mut root = json!({});
        set(&mut root, &path("agents.list[0].id"), json!("main")).unwrap();
        assert_eq!(root, json!({"agents": {"list": [{"id": "main"}]}}));
    }

    #[test]
    fn a_value_is_never_dropped_to_make_room_for_a_parent() {
        let mut root = json!({"a": "text"});
        let error = set(&mut root, &path("a.b"), json!(1)).unwrap_err();
        assert_eq!(error, PathError::NoKeys { at: "a".into(), found: "a string" });
        assert_eq!(root, json!({"a": "text"}));
    }

    #[test]
    fn unset_takes_one_list_element_and_leaves_the_list() {
        let mut root = json!({"a": {"list": [{"x": 1}, 2]}});
        assert!(unset(&mut root, &path("a.list.0.x")));
        assert_eq!(root, json!({"a": {"list": [{}, 2]}}));
        assert!(unset(&mut root, &path("a.list[0]")) && unset(&mut root, &path("a.list[0]")));
        assert_eq!(root, json!({"a": {"list": []}}));
        assert!(!unset(&mut root, &path("a.list[0]")));
    }

    fn segments() -> impl Strategy<Value = Vec<String>> {
        let segment = r"[a-zA-Z0-9_ .\\\[\]ü-]{1,8}"
            .prop_filter("a forbidden name", |text| !FORBIDDEN.contains(&text.as_str()));
        proptest::collection::vec(segment, 1..5)
    }

    proptest! {
        #[test]
        fn a_rendered_path_parses_to_itself(segments in segments()) {
            let path = KeyPath::from_segments(segments).unwrap();
            prop_assert_eq!(path.to_string().parse::<KeyPath>().unwrap(), path);
        }

        #[test]
        fn any_text_parses_or_is_refused(text in "\\PC*") {
            if let Ok(path) = text.parse::<KeyPath>() {
                prop_assert_eq!(path.to_string().parse::<KeyPath>().unwrap(), path);
            }
        }

        #[test]
        fn what_was_set_is_read_back_and_unset_takes_it_away(segments in segments(), number: i32) {
            prop_assume!(!segments.iter().any(|segment| segment == FIRST));
            let path = KeyPath::from_segments(segments).unwrap();
            let mut root = json!({});
            set(&mut root, &path, json!(number)).unwrap();
            prop_assert_eq!(get(&root, &path), Some(&json!(number)));
            prop_assert!(unset(&mut root, &path));
            prop_assert_eq!(root, json!({}));
        }
    }
}
