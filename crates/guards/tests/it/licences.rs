//! Under which licences the parts of the program come. `deny.toml` holds the one list, for this test and for those
//! who have the tool `cargo deny`; here it is checked from cargo's own metadata, so that nothing must be installed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::workspace::{read, resolved};

/// The quoted names of `allow = [ … ]` in deny.toml.
fn allowed() -> BTreeSet<String> {
    let deny = read("deny.toml");
    let list =
        deny.split_once("\nallow = [").and_then(|(_, rest)| rest.split_once("\n]")).map(|(list, _)| list);
    let list = list.expect("deny.toml has a list `allow = [` in [licenses]");
    list.lines()
        .filter_map(|line| line.trim().strip_prefix('"')?.split('"').next())
        .map(str::to_owned)
        .collect()
}

/// Whether a licence expression can be met with the allowed licences: `OR` and `/` need one side, `AND` both.
fn permits(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let text = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = text.split_whitespace().peekable();
    let result = any_of(&mut words, allowed);
    assert_eq!(words.next(), None, "cannot read the licence expression {expression:?}");
    result
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_of(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut result = all_of(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        result |= all_of(words, allowed);
    }
    result
}

fn all_of(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let mut result = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        result &= one(words, allowed);
    }
    result
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<String>) -> bool {
    let Some(name) = words.next() else { return false };
    if name == "(" {
        let result = any_of(words, allowed);
        return words.next() == Some(")") && result;
    }
    let exception = words.next_if_eq(&"WITH").and_then(|_| words.next());
    allowed
        .contains(&exception.map_or_else(|| name.to_owned(), |exception| format!("{name} WITH {exception}")))
}

/// Package id to its name, version and licence, for everything that ends up in the binary.
fn shipped(metadata: &Value) -> Vec<(String, Option<String>)> {
    let packages: BTreeMap<&str, &Value> = entries(&metadata["packages"]).collect();
    let nodes: BTreeMap<&str, &Value> = entries(&metadata["resolve"]["nodes"]).collect();
    let cli =
        packages.iter().find(|(_, package)| package["name"] == "tidegate-cli").expect("tidegate-cli exists");
    let mut reached = BTreeSet::new();
    let mut waiting = vec![*cli.0];
    while let Some(id) = waiting.pop() {
        if !reached.insert(id) {
            continue;
        }
        for dependency in nodes[id]["deps"].as_array().unwrap() {
            let normal =
                dependency["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null());
            if normal {
                waiting.push(dependency["pkg"].as_str().unwrap());
            }
        }
    }
    let describe = |id: &&str| {
        let package = packages[id];
        let name = format!("{} {}", package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        (name, package["license"].as_str().map(str::to_owned))
    };
    reached.iter().map(describe).collect()
}

fn entries(list: &Value) -> impl Iterator<Item = (&str, &Value)> {
    list.as_array().unwrap().iter().map(|entry| (entry["id"].as_str().unwrap(), entry))
}

#[test]
fn every_part_of_the_program_comes_under_an_allowed_licence() {
    let allowed = allowed();
    let refused: Vec<String> = shipped(&resolved())
        .into_iter()
        .filter(|(_, licence)| !licence.as_deref().is_some_and(|licence| permits(licence, &allowed)))
        .map(|(name, licence)| {
            format!("{name}: {}", licence.unwrap_or_else(|| "states no licence".to_owned()))
        })
        .collect();
    assert!(
        refused.is_empty(),
        "packages under a licence that deny.toml does not allow:\n  {}\nDo without them, or add the licence to `allow` in \
         deny.toml if the binary may be given away under it.",
        refused.join("\n  ")
    );
}

#[test]
fn a_licence_expression_is_read_as_it_is_meant() {
    let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
    for (expression, permitted) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("MIT OR GPL-3.0", true),
        ("MIT/GPL-3.0", true),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR GPL-3.0) AND Apache-2.0", true),
        ("GPL-3.0 AND (MIT OR Apache-2.0)", false),
        ("GPL-3.0 OR MIT AND ISC", false),
        ("Apache-2.0 WITH LLVM-exception", true),
        ("MIT WITH LLVM-exception", false),
    ] {
        assert_eq!(permits(expression, &allowed), permitted, "{expression}");
    }
}
