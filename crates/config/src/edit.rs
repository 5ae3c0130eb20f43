//! Changing one key in the text of a config file, and nothing else.
//!
//! The text is edited as a syntax tree that keeps comments, commas, quotes and order. Owns the rule that an edit
//! counts only when the changed text, read back, is the old document with exactly that change: whatever the tree
//! editor cannot do is refused, never written. Works on text; files are the job of [`crate::file`].

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{
    CstContainerNode, CstInputValue, CstLeafNode, CstNode, CstObject, CstObjectProp, CstRootNode,
};
use serde_json::Value;

use crate::document::{self, without_bom};
use crate::path::{self, FIRST, KeyPath, PathError, list_index};
use crate::problem::Problem;

/// A change to one key.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Set { path: KeyPath, value: Value },
    Unset { path: KeyPath },
}

/// Why a text could not be changed.
#[derive(Debug, PartialEq)]
pub(crate) enum TextError {
    Unreadable(Vec<Problem>),
    Path(PathError),
    Unsupported(String),
}

/// What a file that does not exist yet starts with.
pub(crate) const NEW_FILE: &str = "\
// Configuration of Tidegate, in JSON5: comments, trailing commas and keys without quotes are fine.
// `tidegate config schema` prints every key; `tidegate config validate` checks this file.
{
}
";

/// The text with the change made.
pub(crate) fn apply(text: &str, change: &Change) -> Result<String, TextError> {
    let body = without_bom(text);
    let before = document::parse(body).map_err(TextError::Unreadable)?;
    let mut expected = before.clone();
    let path = match change {
        Change::Set { path, value } => {
            path::set(&mut expected, path, value.clone()).map_err(TextError::Path)?;
            path
        }
        Change::Unset { path } => {
            if !path::unset(&mut expected, path) {
                return Err(TextError::Path(PathError::NotSet { at: path.to_string() }));
            }
            path
        }
    };
    let tree = CstRootNode::parse(body, &ParseOptions::default())
        .map_err(|error| TextError::Unsupported(error.to_string()))?;
    let edited = match change {
        Change::Set { path, value } => set(&tree, &before, path.segments(), value),
        Change::Unset { path } => unset(&tree, path.segments()),
    };
    edited.ok_or_else(|| TextError::Unsupported(format!("{path} cannot be reached in the text")))?;
    let body = tree.to_string();
    // The reader and the tree editor are two programs: only what the reader sees counts.
    let mut after =
        document::parse(&body).map_err(|_| TextError::Unsupported("the result is unreadable".into()))?;
    if matches!(change, Change::Unset { .. }) {
        // An emptied parent stays in the text when it holds a comment.
        path::prune_parents(&mut after, path);
    }
    if after != expected {
        return Err(TextError::Unsupported(format!("{path} cannot be changed alone")));
    }
    let bom = &text[..text.len() - without_bom(text).len()];
    Ok(format!("{bom}{body}"))
}

fn set(tree: &CstRootNode, before: &Value, segments: &[String], value: &Value) -> Option<()> {
    let bare = prefers_bare_keys(tree);
    let mut node = tree.value()?;
    let mut held = before;
    for (depth, segment) in segments.iter().enumerate() {
        let rest = &segments[depth + 1..];
        if let Some(object) = node.as_object() {
            let Some(prop) = object.get(segment) else {
                let prop = object.append(segment, nested(rest, value));
                return bare_keys(&prop.into(), bare);
            };
            held = held.get(segment)?;
            node = prop.value()?;
        } else {
            let array = node.as_array()?;
            let index = list_index(segment)?;
            let Some(element) = array.elements().into_iter().nth(index) else {
                return bare_keys(&array.append(nested(rest, value)), bare);
            };
            held = held.get(index)?;
            node = element;
        }
        if held.is_null() && !rest.is_empty() {
            return bare_keys(&replace(node, nested(rest, value))?, bare);
        }
    }
    reconcile(node, held, value, bare)
}

/// Makes a value out of the one that is there, touching only what differs, so that the comments between the keys
/// of a replaced object stay.
fn reconcile(node: CstNode, old: &Value, new: &Value, bare: bool) -> Option<()> {
    match (old, new) {
        _ if old == new => Some(()),
        (Value::Object(old), Value::Object(new)) => {
            let object = node.as_object()?;
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                object.get(key)?.remove();
            }
            for (key, value) in new {
                match old.get(key) {
                    Some(held) => reconcile(object.get(key)?.value()?, held, value, bare)?,
                    None => bare_keys(&object.append(key, input(value)).into(), bare)?,
                }
            }
            Some(())
        }
        (Value::Array(old), Value::Array(new)) => {
            let array = node.as_array()?;
            let elements = array.elements();
            for (element, (held, value)) in elements.iter().zip(old.iter().zip(new)) {
                reconcile(element.clone(), held, value, bare)?;
            }
            elements.into_iter().skip(new.len()).rev().for_each(CstNode::remove);
            new.iter().skip(old.len()).try_for_each(|value| bare_keys(&array.append(input(value)), bare))
        }
        _ => bare_keys(&replace(node, input(new))?, bare),
    }
}

fn unset(tree: &CstRootNode, segments: &[String]) -> Option<()> {
    let mut node = tree.value()?;
    for (depth, segment) in segments.iter().enumerate() {
        let last = depth + 1 == segments.len();
        if let Some(object) = node.as_object() {
            let prop = object.get(segment)?;
            if last {
                outermost_emptied(prop).remove();
                return Some(());
            }
            node = prop.value()?;
        } else {
            node = node.as_array()?.elements().into_iter().nth(list_index(segment)?)?;
            if last {
                node.remove();
                return Some(());
            }
        }
    }
    None
}

/// The property to remove so that no empty parent is left; one with a comment in it is left.
fn outermost_emptied(prop: CstObjectProp) -> CstObjectProp {
    let holder = |prop: &CstObjectProp| -> Option<CstObjectProp> {
        let object: CstObject = prop.parent()?.as_object()?;
        let only = object.properties().len() == 1;
        let commented = object.children().iter().any(CstNode::is_comment);
        let parent = object.parent()?.as_object_prop()?;
        (only && !commented).then_some(parent)
    };
    let mut outermost = prop;
    while let Some(parent) = holder(&outermost) {
        outermost = parent;
    }
    outermost
}

fn replace(node: CstNode, value: CstInputValue) -> Option<CstNode> {
    match node {
        CstNode::Container(CstContainerNode::Object(node)) => node.replace_with(value),
        CstNode::Container(CstContainerNode::Array(node)) => node.replace_with(value),
        CstNode::Leaf(CstLeafNode::BooleanLit(node)) => node.replace_with(value),
        CstNode::Leaf(CstLeafNode::NullKeyword(node)) => node.replace_with(value),
        CstNode::Leaf(CstLeafNode::NumberLit(node)) => node.replace_with(value),
        CstNode::Leaf(CstLeafNode::StringLit(node)) => node.replace_with(value),
        CstNode::Leaf(CstLeafNode::WordLit(node)) => node.replace_with(value),
        _ => None,
    }
}

/// The value inside the parents that do not exist yet, which are made as [`path::set`] makes them.
fn nested(segments: &[String], value: &Value) -> CstInputValue {
    segments.iter().rev().fold(input(value), |inner, segment| match segment.as_str() {
        FIRST => CstInputValue::Array(vec![inner]),
        key => CstInputValue::Object(vec![(key.to_owned(), inner)]),
    })
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(value) => CstInputValue::Number(value.to_string()),
        Value::String(value) => CstInputValue::String(value.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(key, item)| (key.clone(), input(item))).collect())
        }
    }
}

/// Whether the owner writes keys without quotes; a file without keys follows the JSON5 habit.
fn prefers_bare_keys(tree: &CstRootNode) -> bool {
    fn bare_minus_quoted(node: &CstNode) -> i64 {
        let own = match node.as_object_prop().and_then(|prop| prop.name()) {
            Some(name) if name.as_word_lit().is_some() => 1,
            Some(_) => -1,
            None => 0,
        };
        own + node.children().iter().map(bare_minus_quoted).sum::<i64>()
    }
    tree.children().iter().map(bare_minus_quoted).sum::<i64>() >= 0
}

/// Takes the quotes off the keys of what was just inserted, where the file is written that way.
fn bare_keys(inserted: &CstNode, bare: bool) -> Option<()> {
    if !bare {
        return Some(());
    }
    if let Some(name) = inserted.as_object_prop().and_then(|prop| prop.name())
        && let Some(quoted) = name.as_string_lit()
        && let Ok(key) = quoted.decoded_value()
        && is_identifier(&key)
    {
        quoted.set_raw_value(key);
    }
    inserted.children().iter().try_for_each(|child| bare_keys(child, bare))
}

fn is_identifier(key: &str) -> bool {
    let reserved = matches!(key, "true" | "false" | "null" | "Infinity" | "NaN");
    let plain = key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$'));
    !reserved && plain && !key.is_empty() && !key.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const FILE: &str = "\
// head
{
  // the port
  gateway: { port: 1, /* inside */ },
  \"agents\": {
    list: [
      { id: 'a' }, // first
      { id: 'b', name: \"B\" },
    ],
  },

  // the end
}
// tail
";

    fn set_to(text: &str, path: &str, value: Value) -> String {
        apply(text, &Change::Set { path: path.parse().unwrap(), value }).unwrap()
    }

    fn unset_in(text: &str, path: &str) -> String {
        apply(text, &Change::Unset { path: path.parse().unwrap() }).unwrap()
    }

    #[test]
    fn setting_a_value_changes_that_value_only() {
        assert_eq!(set_to(FILE, "gateway.port", json!(2)), FILE.replace("port: 1", "port: 2"));
        assert_eq!(set_to(FILE, "agents.list[1].id", json!("c")), FILE.replace("id: 'b'", "id: \"c\""));
        assert_eq!(set_to(FILE, "gateway.port", json!(1)), FILE);
    }

    #[test]
    fn a_new_key_is_written_the_way_the_file_is() {
        assert_eq!(
            set_to(FILE, "ui.language", json!("en")),
            FILE.replace(
                "  },\n\n  // the end",
                "  },\n  ui: {\n    language: \"en\",\n  },\n\n  // the end"
            )
        );
        let quoted = "{\n\t\"ui\": {}\n}\n";
        assert_eq!(
            set_to(quoted, "ui.language", json!("en")),
            "{\n\t\"ui\": {\n\t\t\"language\": \"en\"\n\t}\n}\n"
        );
    }

    #[test]
    fn a_new_file_has_its_head_and_the_key() {
        let text = set_to(NEW_FILE, "gateway.port", json!(5));
        assert_eq!(text, NEW_FILE.replace("{\n}\n", "{\n  gateway: {\n    port: 5\n  }\n}\n"));
    }

    #[test]
    fn list_elements_are_edited_appended_and_removed() {
        let text = set_to("{a: [1, 2]}", "a[0]", json!(9));
        assert_eq!(text, "{a: [9, 2]}");
        assert_eq!(
            document::parse(&set_to(&text, "a[2]", json!({"b": 1}))).unwrap(),
            json!({"a": [9, 2, {"b": 1}]})
        );
        assert_eq!(unset_in(&text, "a[1]"), "{a: [9]}");
        let error =
            apply(&text, &Change::Set { path: "a[7]".parse().unwrap(), value: json!(1) }).unwrap_err();
        assert_eq!(error, TextError::Path(PathError::OutOfRange { at: "a".into(), len: 2 }));
    }

    #[test]
    fn an_object_is_replaced_key_by_key_so_that_its_comments_stay() {
        let text = "{\n  a: {\n    // about b\n    b: 1,\n    // about c\n    c: [1, 2, 3],\n  },\n}\n";
        let changed = set_to(text, "a", json!({"b": 1, "c": [1, 5], "d": true}));
        assert_eq!(
            changed,
            "{\n  a: {\n    // about b\n    b: 1,\n    // about c\n    c: [1, 5],\n    d: true,\n  },\n}\n"
        );
    }

    #[test]
    fn unset_prunes_empty_parents_but_never_a_comment() {
        assert_eq!(unset_in("{\n  a: {\n    b: { c: 1 },\n  },\n  d: 2,\n}\n", "a.b.c"), "{\n  d: 2,\n}\n");
        let kept = unset_in(FILE, "gateway.port");
        assert!(kept.contains("/* inside */") && kept.contains("// the port"), "{kept}");
        assert_eq!(document::parse(&kept).unwrap()["gateway"], json!({}));
        let error = apply(FILE, &Change::Unset { path: "gateway.bind".parse().unwrap() }).unwrap_err();
        assert_eq!(error, TextError::Path(PathError::NotSet { at: "gateway.bind".into() }));
    }

    #[test]
    fn a_null_parent_becomes_an_object_and_a_value_does_not() {
        assert_eq!(
            document::parse(&set_to("{a: null}", "a.b.c", json!(1))).unwrap(),
            json!({"a": {"b": {"c": 1}}})
        );
        assert_eq!(
            document::parse(&set_to("{a: [null]}", "a[0].b", json!(1))).unwrap(),
            json!({"a": [{"b": 1}]})
        );
        let error =
            apply("{a: 5}", &Change::Set { path: "a.b".parse().unwrap(), value: json!(1) }).unwrap_err();
        assert_eq!(error, TextError::Path(PathError::NoKeys { at: "a".into(), found: "a number" }));
    }

    #[test]
    fn byte_order_mark_and_line_ends_are_kept() {
        let text = "\u{feff}{\r\n  a: 1,\r\n}\r\n";
        assert_eq!(set_to(text, "b", json!(2)), "\u{feff}{\r\n  a: 1,\r\n  b: 2,\r\n}\r\n");
    }

    /// JSON5 that is valid but unusual, with a comment wherever one may stand.
    fn json5_text() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            Just("1".to_owned()),
            Just("0x1F".to_owned()),
            Just(".5".to_owned()),
            Just("null".to_owned()),
            Just("true".to_owned()),
            Just("'it\\'s'".to_owned()),
            Just("\"a // no comment\"".to_owned()),
            Just("'two\\\nlines'".to_owned()),
        ];
        let gap = || {
            prop_oneof![
                4 => Just(""), 4 => Just(" "), 2 => Just("\n"), 1 => Just("\r\n"),
                1 => Just("/* block */"), 1 => Just(" // line\n"), 1 => Just("\n\n  // alone\n  "),
            ]
        };
        let value = scalar.prop_recursive(3, 24, 4, move |inner| {
            let element = (gap(), inner.clone(), gap());
            let list =
                (proptest::collection::vec(element, 0..4), any::<bool>()).prop_map(|(elements, comma)| {
                    let items: Vec<_> =
                        elements.into_iter().map(|(a, item, b)| format!("{a}{item}{b}")).collect();
                    let comma = if comma && !items.is_empty() { "," } else { "" };
                    format!("[{}{comma}]", items.join(","))
                });
            let entry = (gap(), inner, gap(), any::<bool>());
            let object = (proptest::collection::vec(entry, 0..4), gap(), any::<bool>()).prop_map(
                |(entries, end, comma)| {
                    let items: Vec<_> = entries
                        .into_iter()
                        .enumerate()
                        .map(|(index, (a, item, b, quoted))| {
                            let key = ["a", "b", "c", "default"][index];
                            let key = if quoted { format!("\"{key}\"") } else { key.to_owned() };
                            format!("{a}{key}:{b}{item}")
                        })
                        .collect();
                    let comma = if comma && !items.is_empty() { "," } else { "" };
                    format!("{{{}{comma}{end}}}", items.join(","))
                },
            );
            prop_oneof![list, object]
        });
        (value, gap(), gap())
            .prop_map(|(value, before, after)| format!("{before}{{a: {value}, z: {{}}}}{after}"))
    }

    fn new_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<i64>().prop_map(Value::from),
            "\\PC{0,6}".prop_map(Value::from),
            Just(json!(true)),
            Just(json!({"k": [1, {"deep": "x"}], "not an identifier": null})),
            Just(json!([])),
        ]
    }

    fn some_path() -> impl Strategy<Value = KeyPath> {
        let segment =
            prop_oneof![Just("a"), Just("b"), Just("c"), Just("default"), Just("0"), Just("1"), Just("new")];
        proptest::collection::vec(segment, 1..4)
            .prop_map(|segments| KeyPath::from_segments(segments).unwrap())
    }

    fn comments(text: &str) -> [usize; 3] {
        ["/* block */", "// line", "// alone"].map(|comment| text.matches(comment).count())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn after_a_set_the_value_is_there_and_the_rest_is_as_it_was(
            text in json5_text(), path in some_path(), value in new_value(),
        ) {
            let before = document::parse(&text).unwrap();
            match apply(&text, &Change::Set { path: path.clone(), value: value.clone() }) {
                Ok(edited) => {
                    let after = document::parse(&edited).unwrap();
                    prop_assert_eq!(path::get(&after, &path), Some(&value));
                    let held = path::get(&before, &path);
                    let replaces_a_container = held.is_some_and(|held| held.is_object() || held.is_array());
                    if !replaces_a_container {
                        prop_assert_eq!(comments(&edited), comments(&text), "{}", edited);
                    }
                }
                Err(error) => prop_assert!(matches!(error, TextError::Path(_)), "{:?} in {}", error, text),
            }
        }

        #[test]
        fn after_an_unset_the_value_is_gone_and_unsetting_again_is_refused(text in json5_text(), path in some_path()) {
            let change = Change::Unset { path: path.clone() };
            let before = document::parse(&text).unwrap();
            match apply(&text, &change) {
                Ok(edited) => {
                    let mut expected = before;
                    path::unset(&mut expected, &path);
                    let mut after = document::parse(&edited).unwrap();
                    path::prune_parents(&mut after, &path);
                    prop_assert_eq!(after, expected);
                }
                Err(error) => prop_assert!(matches!(error, TextError::Path(_)), "{:?} in {}", error, text),
            }
        }

        #[test]
        fn any_text_is_edited_or_refused(text in r#"[\[\]{}:,"'/*\\a0x.\n -]{0,40}"#, path in some_path()) {
            let _ = apply(&text, &Change::Set { path: path.clone(), value: json!(1) });
            let _ = apply(&text, &Change::Unset { path });
        }
    }
}
