//! Which crate may use which. Dependencies point down only, and the table below is the whole truth about it.
//!
//! A new edge is a decision about the architecture: it changes this table and `ARCHITECTURE.md` in one commit.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::workspace::{members, root};

/// Crates by their short names, with what each may use besides `protocol` and `runtime`.
const MAY_USE: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("runtime", &[]),
    ("policy", &[]),
    ("secrets", &[]),
    ("config", &["secrets"]),
    ("net", &["policy", "secrets"]),
    ("storage", &["policy"]),
    ("storage-sqlite", &["storage"]),
    ("storage-postgres", &["storage"]),
    ("sandbox", &["policy", "net"]),
    ("tools", &["policy", "net"]),
    ("oauth", &["net", "secrets"]),
    ("mcp", &["policy", "tools", "net", "sandbox", "secrets", "oauth"]),
    ("models", &["net", "secrets", "config", "oauth"]),
    ("memory", &["tools", "models", "storage"]),
    ("skills", &["tools", "net"]),
    ("routing", &["policy"]),
    ("agent", &["models", "tools", "policy", "storage"]),
    (
        "engine",
        &[
            "routing", "agent", "models", "tools", "memory", "skills", "mcp", "net", "policy", "storage",
            "config", "secrets",
        ],
    ),
    ("channels", &["net", "secrets", "config"]),
    ("gateway", &["engine", "policy", "storage", "config", "net", "secrets"]),
    ("client", &["net"]),
];

/// Compose the program, so they may use every crate of the table.
const COMPOSE: [&str; 3] = ["cli", "testkit", "bench"];
/// Pure: decisions from facts that somebody else loaded, without a clock and without tasks.
const PURE: [&str; 3] = ["protocol", "policy", "routing"];
/// Reads the others' files and generated texts; it is no part of the program.
const EXEMPT: &str = "guards";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Normal,
    Dev,
}

/// Why `from` may not use `to`, if it may not.
fn objection(from: &str, to: &str, kind: Kind) -> Option<String> {
    if from == EXEMPT {
        return None;
    }
    let (from_known, to_known) = (known(from), known(to));
    if !from_known {
        return Some(format!("`{from}` is not in the table of crates"));
    }
    match to {
        "cli" | "bench" | "guards" => return Some(format!("nothing may use `{to}`")),
        "testkit" if kind == Kind::Dev => return None,
        "testkit" => return Some("`testkit` is for tests: make it a dev-dependency".to_owned()),
        _ if !to_known => return Some(format!("`{to}` is not in the table of crates")),
        _ => {}
    }
    if COMPOSE.contains(&from) || to == "protocol" || allowed(from).contains(&to) {
        return None;
    }
    if to == "runtime" {
        return PURE.contains(&from).then(|| format!("`{from}` is pure and may not use `runtime`"));
    }
    Some(format!("`{from}` may use: protocol{}", listing(from)))
}

fn known(name: &str) -> bool {
    COMPOSE.contains(&name) || name == EXEMPT || MAY_USE.iter().any(|(known, _)| *known == name)
}

fn allowed(name: &str) -> &'static [&'static str] {
    MAY_USE.iter().find(|(known, _)| *known == name).map_or(&[], |(_, allowed)| allowed)
}

fn listing(name: &str) -> String {
    let runtime = if PURE.contains(&name) { "" } else { ", runtime" };
    allowed(name).iter().fold(runtime.to_owned(), |list, next| format!("{list}, {next}"))
}

/// `tidegate-x` is `x`.
fn short(package: &Value) -> String {
    let name = package["name"].as_str().unwrap();
    name.strip_prefix("tidegate-")
        .unwrap_or_else(|| panic!("package {name} is not called tidegate-…"))
        .to_owned()
}

#[test]
fn dependencies_point_down_only() {
    let mut objections = Vec::new();
    for package in members() {
        let from = short(&package);
        for dependency in package["dependencies"].as_array().unwrap() {
            let Some(to) = dependency["name"].as_str().and_then(|name| name.strip_prefix("tidegate-")) else {
                continue;
            };
            let kind = if dependency["kind"] == "dev" { Kind::Dev } else { Kind::Normal };
            if let Some(objection) = objection(&from, to, kind) {
                let manifest =
                    Path::new(package["manifest_path"].as_str().unwrap()).strip_prefix(root()).unwrap();
                objections.push(format!("{}: {from} -> {to}: {objection}", manifest.display()));
            }
        }
    }
    assert!(
        objections.is_empty(),
        "edges the architecture does not have:\n  {}\nRemove the dependency from the manifest named first, or change the table in \
         crates/guards/tests/it/edges.rs together with ARCHITECTURE.md.",
        objections.join("\n  ")
    );
}

#[test]
fn a_crate_lives_in_the_folder_of_its_name() {
    for package in members() {
        let name = short(&package);
        let expected = if name == "bench" { "bench".to_owned() } else { format!("crates/{name}") };
        let manifest = package["manifest_path"].as_str().unwrap();
        assert_eq!(
            Path::new(manifest),
            root().join(&expected).join("Cargo.toml"),
            "tidegate-{name} belongs in {expected}"
        );
    }
}

#[test]
fn the_table_itself_has_no_circle() {
    let mut height: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, uses) in MAY_USE {
        // The table is written bottom up, so every crate it uses already has its height, or the table has a circle.
        let uses_height = uses.iter().map(|used| height.get(used).copied());
        let above = uses_height
            .map(|height| height.unwrap_or_else(|| panic!("{name} uses a crate further down the table")));
        let tallest = above.max().unwrap_or(0);
        height.insert(name, tallest + 1);
    }
}

#[test]
fn an_edge_that_points_up_or_sideways_is_refused() {
    for (from, to, kind, may) in [
        ("cli", "engine", Kind::Normal, true),
        ("cli", "storage-sqlite", Kind::Normal, true),
        ("agent", "protocol", Kind::Normal, true),
        ("agent", "runtime", Kind::Normal, true),
        ("engine", "testkit", Kind::Dev, true),
        ("guards", "config", Kind::Dev, true),
        ("engine", "testkit", Kind::Normal, false),
        ("cli", "testkit", Kind::Normal, false),
        ("testkit", "cli", Kind::Normal, false),
        ("engine", "cli", Kind::Dev, false),
        ("engine", "storage-sqlite", Kind::Normal, false),
        ("agent", "engine", Kind::Normal, false),
        ("agent", "engine", Kind::Dev, false),
        ("policy", "runtime", Kind::Normal, false),
        ("protocol", "runtime", Kind::Normal, false),
        ("gateway", "channels", Kind::Normal, false),
        ("engine", "surprise", Kind::Normal, false),
        ("surprise", "protocol", Kind::Normal, false),
    ] {
        assert_eq!(objection(from, to, kind).is_none(), may, "{from} -> {to} ({kind:?})");
    }
}
