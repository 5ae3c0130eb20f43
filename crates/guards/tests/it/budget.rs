//! How large the program may grow: `budget.toml` caps the packages it is made of. `make build` reads the cap on the
//! binary's size from the same file.

use std::collections::BTreeSet;

use crate::workspace::{cargo, read};

/// The number after `key =` outside the history.
fn number(budget: &str, key: &str) -> u64 {
    let head = budget.split("[[history]]").next().unwrap();
    let lines = head.lines().filter_map(|line| line.split_once('='));
    let value = lines.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).next();
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("budget.toml has no number `{key}`"))
}

/// Packages the binary is built from, each once.
fn packages() -> BTreeSet<String> {
    let tree = cargo(&["tree", "-e", "normal", "-p", "tidegate-cli", "--prefix", "none"]);
    // A line is `name v1.2.3 (proc-macro) (*)`; only the first two words name the package.
    tree.lines()
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .filter(|package| !package.is_empty())
        .collect()
}

#[test]
fn the_program_has_no_more_packages_than_the_budget_allows() {
    let allowed = number(&read("budget.toml"), "packages");
    let packages = packages();
    assert!(
        packages.len() as u64 <= allowed,
        "tidegate-cli is made of {} packages, budget.toml allows {allowed}. Do without the newest dependency, or raise \
         `packages` in budget.toml and add a [[history]] entry that says what the program gets for it.\n{}",
        packages.len(),
        packages.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn a_budget_has_a_reason_for_its_present_size() {
    let budget = read("budget.toml");
    assert!(number(&budget, "binary_mb") > 0);
    let entries: Vec<_> = budget.split("[[history]]").skip(1).collect();
    assert!(!entries.is_empty(), "budget.toml has no [[history]]");
    for entry in &entries {
        let reason = entry.lines().find_map(|line| line.strip_prefix("reason = ")).unwrap_or_default();
        assert!(
            reason.trim_matches('"').len() > 10,
            "a [[history]] entry of budget.toml has no reason:{entry}"
        );
    }
    let last = entries.last().unwrap().trim_start();
    assert_eq!(
        number(last, "packages"),
        number(&budget, "packages"),
        "budget.toml: the newest [[history]] entry must state the present number of packages"
    );
}
