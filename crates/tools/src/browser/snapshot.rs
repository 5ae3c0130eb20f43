//! A page as text: its accessibility tree, one line for each thing, with a name to use it by. Pure.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::Value;

/// How deep a tree is followed.
const DEEPEST: usize = 120;
/// How many things are looked at.
const MOST_NODES: usize = 100_000;
/// Of one name or value.
const LONGEST_NAME: usize = 400;

/// Things that are used, whatever else is known about them.
const USED: [&str; 20] = [
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "checkbox",
    "radio",
    "menuitem",
    "menuitemcheckbox",
    "menuitemradio",
    "option",
    "tab",
    "slider",
    "spinbutton",
    "switch",
    "treeitem",
    "listbox",
    "DisclosureTriangle",
    "ComboBoxSelect",
    "ListBox",
];
/// Things that only hold others.
const HOLDERS: [&str; 6] =
    ["generic", "none", "InlineTextBox", "LineBreak", "GenericContainer", "RootWebArea"];

/// The tree of one frame.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) session: String,
    pub(super) nodes: Vec<Value>,
}

/// What is meant by a name such as `e3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Meant {
    pub(super) session: String,
    pub(super) node: u64,
    /// For people: its role and its name on the page.
    pub(super) shown: String,
}

/// The names of one page. A thing keeps its name as long as the page is the same; a name is never given twice.
#[derive(Debug, Default)]
pub(super) struct Names {
    given: HashMap<String, Meant>,
    by_node: HashMap<(String, u64), String>,
    last: u64,
}

impl Names {
    pub(super) fn find(&self, name: &str) -> Option<&Meant> {
        self.given.get(name.trim_start_matches('@'))
    }

    /// The page is another one: what was named is gone.
    pub(super) fn forget(&mut self) {
        self.given.clear();
        self.by_node.clear();
    }

    pub(super) fn name(&mut self, meant: Meant) -> String {
        let at = (meant.session.clone(), meant.node);
        let name = self.by_node.get(&at).cloned().unwrap_or_else(|| {
            self.last += 1;
            format!("e{}", self.last)
        });
        self.by_node.insert(at, name.clone());
        self.given.insert(name.clone(), meant);
        name
    }
}

/// The text, and whether there was more.
pub(super) fn text(
    page: &Frame,
    inner: &HashMap<u64, Frame>,
    names: &mut Names,
    limit: usize,
) -> (String, bool) {
    let mut writer = Writer { inner, names, out: String::new(), limit, cut: false, left: MOST_NODES };
    writer.frame(page, 0, 0);
    let Writer { mut out, cut, .. } = writer;
    if out.is_empty() {
        out.push_str("(nothing to see)\n");
    }
    (out, cut)
}

/// Where in the tree.
#[derive(Clone, Copy)]
struct At<'a> {
    /// How far the lines are moved in.
    depth: usize,
    level: usize,
    /// The name of the nearest thing above: its text is not said twice.
    covered: &'a str,
}

struct Writer<'a> {
    /// By the node that holds them.
    inner: &'a HashMap<u64, Frame>,
    names: &'a mut Names,
    out: String,
    limit: usize,
    cut: bool,
    left: usize,
}

impl Writer<'_> {
    fn frame(&mut self, frame: &Frame, depth: usize, level: usize) {
        let by_id: HashMap<&str, &Value> =
            frame.nodes.iter().filter_map(|node| Some((node["nodeId"].as_str()?, node))).collect();
        if let Some(root) = frame.nodes.first() {
            self.node(frame, &by_id, root, At { depth, level, covered: "" });
        }
    }

    fn node(&mut self, frame: &Frame, all: &HashMap<&str, &Value>, node: &Value, at: At<'_>) {
        let At { depth, level, covered } = at;
        if self.cut || level > DEEPEST || self.left == 0 {
            return;
        }
        self.left -= 1;
        let role = node["role"]["value"].as_str().unwrap_or_default();
        let name = one_line(node["name"]["value"].as_str().unwrap_or_default());
        let hidden = node["ignored"] == true;
        if role == "StaticText" && !hidden {
            if !name.is_empty() && !covered.contains(&name) {
                self.line(depth, &format!("text: {name}"));
            }
            return;
        }
        let plain = hidden || HOLDERS.contains(&role) || role.is_empty();
        let usable = !hidden && (USED.contains(&role) || has(node, "focusable")) && role != "RootWebArea";
        let (mut below, mut covering) = (depth, covered.to_owned());
        if (!plain || usable) && !(name.is_empty() && !usable && is_layout(role)) {
            let line = self.describe(frame, node, role, &name, usable);
            self.line(depth, &line);
            below = depth + 1;
            covering = name;
        }
        if let Some(inner) = node["backendDOMNodeId"].as_u64().and_then(|id| self.inner.get(&id)) {
            self.frame(inner, below, level + 1);
        }
        for child in node["childIds"].as_array().into_iter().flatten() {
            if let Some(child) = child.as_str().and_then(|id| all.get(id)) {
                self.node(frame, all, child, At { depth: below, level: level + 1, covered: &covering });
            }
        }
    }

    fn describe(&mut self, frame: &Frame, node: &Value, role: &str, name: &str, usable: bool) -> String {
        let mut line = if role.is_empty() || role == "none" { "generic".to_owned() } else { role.to_owned() };
        if !name.is_empty() {
            let _ = write!(line, " {name:?}");
        }
        if let Some(value) =
            node["value"]["value"].as_str().filter(|value| !value.is_empty() && *value != name)
        {
            let _ = write!(line, " value={:?}", one_line(value));
        }
        for (property, word) in [
            ("checked", "checked"),
            ("pressed", "pressed"),
            ("selected", "selected"),
            ("expanded", "expanded"),
        ] {
            match value_of(node, property) {
                Some(Value::Bool(true)) => {
                    let _ = write!(line, " [{word}]");
                }
                Some(Value::String(text)) if text == "true" || text == "mixed" => {
                    let _ = write!(line, " [{word}={text}]");
                }
                _ => {}
            }
        }
        if value_of(node, "disabled") == Some(&Value::Bool(true)) {
            line.push_str(" [disabled]");
        }
        if let Some(level) = value_of(node, "level").and_then(Value::as_u64) {
            let _ = write!(line, " [level={level}]");
        }
        if usable && let Some(id) = node["backendDOMNodeId"].as_u64() {
            let shown = format!("{role} {name:?}");
            let meant = Meant { session: frame.session.clone(), node: id, shown };
            let _ = write!(line, " [ref={}]", self.names.name(meant));
        }
        line
    }

    fn line(&mut self, depth: usize, text: &str) {
        let indent = 2 * depth.min(20);
        if self.out.len() + indent + text.len() + 3 > self.limit {
            self.cut = true;
            return;
        }
        let _ = writeln!(self.out, "{:indent$}- {text}", "");
    }
}

/// Things that say nothing without a name.
fn is_layout(role: &str) -> bool {
    matches!(
        role,
        "group"
            | "paragraph"
            | "Section"
            | "LayoutTable"
            | "LayoutTableRow"
            | "LayoutTableCell"
            | "image"
            | "Iframe"
            | "LabelText"
            | "ListMarker"
            | "emphasis"
            | "strong"
    )
}

fn value_of<'v>(node: &'v Value, property: &str) -> Option<&'v Value> {
    let properties = node["properties"].as_array()?;
    properties.iter().find(|known| known["name"] == property).map(|known| &known["value"]["value"])
}

fn has(node: &Value, property: &str) -> bool {
    value_of(node, property) == Some(&Value::Bool(true))
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let joined = words.join(" ");
    match joined.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &joined[..end]),
        None => joined,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(id: &str, role: &str, name: &str, children: &[&str]) -> Value {
        json!({ "nodeId": id, "role": { "value": role }, "name": { "value": name }, "childIds": children,
            "backendDOMNodeId": id.parse::<u64>().unwrap() })
    }

    fn page() -> Frame {
        let mut heading = node("3", "heading", "Hello", &["4"]);
        heading["properties"] = json!([{ "name": "level", "value": { "value": 1 } }]);
        let mut field = node("6", "textbox", "Name", &[]);
        field["value"] = json!({ "value": "Ada" });
        let mut box_ = node("8", "checkbox", "Agree", &[]);
        box_["properties"] = json!([{ "name": "checked", "value": { "value": "true" } }]);
        let nodes = vec![
            node("1", "RootWebArea", "T", &["2"]),
            node("2", "generic", "", &["3", "5", "6", "7", "8", "9"]),
            heading,
            node("4", "StaticText", "Hello", &[]),
            node("5", "StaticText", "a  b\n c", &[]),
            field,
            node("7", "button", "Go", &[]),
            box_,
            node("9", "Iframe", "", &[]),
        ];
        Frame { session: "s".into(), nodes }
    }

    #[test]
    fn a_page_is_a_line_for_each_thing_and_what_can_be_used_has_a_name() {
        let frame = Frame {
            session: "f".into(),
            nodes: vec![node("1", "RootWebArea", "", &["2"]), node("2", "button", "In", &[])],
        };
        let inner = HashMap::from([(9, frame)]);
        let mut names = Names::default();
        let (seen, cut) = text(&page(), &inner, &mut names, 5_000);
        let expected = "- heading \"Hello\" [level=1]\n- text: a b c\n- textbox \"Name\" value=\"Ada\" [ref=e1]\n\
                        - button \"Go\" [ref=e2]\n- checkbox \"Agree\" [checked=true] [ref=e3]\n- button \"In\" [ref=e4]\n";
        assert_eq!((seen.as_str(), cut), (expected, false));
        assert_eq!(names.find("e4").unwrap().session, "f");
    }

    #[test]
    fn a_thing_keeps_its_name_and_a_name_is_never_given_twice() {
        let mut names = Names::default();
        let first = text(&page(), &HashMap::new(), &mut names, 5_000).0;
        assert_eq!(text(&page(), &HashMap::new(), &mut names, 5_000).0, first);
        names.forget();
        assert_eq!(names.find("e2"), None);
        assert!(text(&page(), &HashMap::new(), &mut names, 5_000).0.contains("[ref=e4]"));
    }

    #[test]
    fn a_large_page_is_cut_at_a_line() {
        let nodes = std::iter::once(node("1", "RootWebArea", "", &[]))
            .chain((2..5_000).map(|id| node(&id.to_string(), "button", "x", &[])))
            .collect::<Vec<_>>();
        let mut nodes = nodes;
        nodes[0]["childIds"] = (2..5_000).map(|id: u64| id.to_string()).collect::<Vec<_>>().into();
        let (seen, cut) =
            text(&Frame { session: "s".into(), nodes }, &HashMap::new(), &mut Names::default(), 1_000);
        assert!(cut && seen.len() <= 1_000 && seen.ends_with("]\n"), "{seen}");
    }

    #[test]
    fn a_tree_that_leads_back_to_itself_ends() {
        let nodes = vec![node("1", "RootWebArea", "", &["2"]), node("2", "generic", "", &["1"])];
        let mut nodes = nodes;
        let (seen, _) = text(
            &Frame { session: "s".into(), nodes: nodes.clone() },
            &HashMap::new(),
            &mut Names::default(),
            1_000,
        );
        assert_eq!(seen, "(nothing to see)\n");
        nodes[1]["role"]["value"] = "article".into();
        nodes[1]["name"]["value"] = "x".into();
        let (seen, _) =
            text(&Frame { session: "s".into(), nodes }, &HashMap::new(), &mut Names::default(), 100_000);
        assert!(seen.lines().count() <= DEEPEST + 1);
    }
}
