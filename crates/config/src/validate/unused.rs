//! Keys that are accepted although nothing acts on them yet.
//!
//! A file written for a later version, or for OpenClaw, loads; but its owner is told which keys have no effect.
//! The list gets shorter as the code arrives that uses a key.

use super::view::View;
use crate::problem::{Problem, ProblemKind};

/// Keys without effect; `*` stands for one key or list element.
const NOT_YET_USED: [&str; 12] = [
    "agents.defaults.memorySearch",
    "session.dmScope",
    "session.identityLinks",
    "channels.defaults",
    "channels.telegram",
    "channels.discord",
    "channels.slack",
    "channels.whatsapp",
    "channels.signal",
    "channels.matrix",
    "channels.feishu",
    "logging.redactSensitive",
];

/// A notice for every key that is set and has no effect.
pub(crate) fn unused_keys(document: &serde_json::Value) -> Vec<Problem> {
    let root = View::new(document, document);
    let mut found = Vec::new();
    for pattern in NOT_YET_USED {
        let steps: Vec<&str> = pattern.split('.').collect();
        matches(&root, &steps, &mut found);
    }
    found
}

/// Whether a key of the reference (`agents.list[].name`) has no effect.
pub(crate) fn is_unused(path: &str) -> bool {
    let path = path.replace("[]", ".*");
    let covers = |pattern: &str| {
        let mut keys = path.split('.');
        pattern.split('.').all(|step| keys.next().is_some_and(|key| step == "*" || step == key))
    };
    NOT_YET_USED.iter().any(|pattern| covers(pattern))
}

fn matches(view: &View<'_>, steps: &[&str], found: &mut Vec<Problem>) {
    let Some((step, rest)) = steps.split_first() else {
        found.push(Problem::new(
            ProblemKind::Unused,
            view.path.clone(),
            "accepted, not used by this version",
        ));
        return;
    };
    if *step == "*" {
        view.entries().for_each(|(_, child)| matches(&child, rest, found));
        view.items().for_each(|child| matches(&child, rest, found));
    } else if let Some(child) = view.key(step) {
        matches(&child, rest, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{Node, Shape, root};
    use serde_json::json;

    /// Keys that the code acts on, or that are ignored by design (`meta`, `$schema`).
    const USED: &[&str] = &[
        "$schema",
        "meta",
        "env",
        "lanes",
        "cron",
        "agents.defaults.model",
        "agents.defaults.models",
        "agents.defaults.imageModel",
        "agents.defaults.thinkingDefault",
        "agents.defaults.maxTokens",
        "agents.defaults.modelPolicy",
        "agents.defaults.maxConcurrent",
        "agents.defaults.subagents",
        "agents.defaults.timeoutSeconds",
        "agents.defaults.maxToolSteps",
        "agents.defaults.historyTurns",
        "agents.defaults.bootstrapMaxChars",
        "agents.defaults.compaction",
        "agents.defaults.skipBootstrap",
        "agents.defaults.contextPruning",
        "agents.defaults.sandbox",
        "agents.list.*.egress",
        "agents.list.*.id",
        "agents.list.*.name",
        "agents.list.*.model",
        "agents.list.*.modelPolicy",
        "agents.list.*.thinkingDefault",
        "agents.list.*.auth",
        "agents.list.*.sensitive",
        "agents.list.*.sandbox",
        "agents.list.*.shadow",
        "agents.list.*.workspace",
        "agents.list.*.tools.allow",
        "agents.list.*.tools.alsoAllow",
        "agents.list.*.tools.byProvider",
        "agents.list.*.tools.deny",
        "agents.list.*.tools.exec",
        "agents.list.*.tools.modes",
        "agents.list.*.tools.profile",
        "agents.list.*.tools.rules",
        "agents.list.*.subagents",
        "agents.list.*.tools.sandbox",
        "agents.list.*.tools.subagents",
        "approvals",
        "agents.list.*.default",
        "models",
        "mcp",
        "browser",
        "services",
        "auth",
        "budgets",
        "egress",
        "channels.local",
        "session.groupCommands",
        "session.reset",
        "session.resetByChannel",
        "session.resetByType",
        "session.resetDuringRun",
        "session.resetTriggers",
        "session.timezone",
        "storage",
        "tools.agentToAgent",
        "tools.allow",
        "tools.alsoAllow",
        "tools.byProvider",
        "tools.custom",
        "tools.deny",
        "tools.exec",
        "tools.highRisk",
        "tools.loopDetection",
        "tools.modes",
        "tools.profile",
        "tools.reuseSeconds",
        "tools.rules",
        "tools.sandbox",
        "tools.sessions",
        "tools.sensitiveSessions",
        "tools.subagents",
        "tools.timeoutSeconds",
        "tools.web",
        "ui.language",
        "gateway",
        "hooks",
        "logging.level",
    ];

    #[test]
    fn every_key_without_effect_is_named_once() {
        let document = json!({
            "gateway": {"port": 1, "bind": "lan"},
            "agents": {"defaults": {"timeoutSeconds": 5, "memorySearch": {}}, "list": [{"id": "a"}, {"id": "b", "name": "B"}]},
            "session": {}, "channels": {"telegram": {"x": 1}, "local": {}}, "storage": {"backend": "sqlite"},
        });
        let lines: Vec<_> = unused_keys(&document).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "agents.defaults.memorySearch: accepted, not used by this version",
                "channels.telegram: accepted, not used by this version",
            ]
        );
    }

    #[test]
    fn every_key_of_the_schema_is_either_used_or_said_to_be_unused() {
        fn leaves(node: &Node, path: &mut Vec<String>, seen: &mut Vec<Vec<String>>) {
            match &node.shape {
                Shape::Object { keys, .. } => {
                    for (key, child) in keys {
                        path.push(key.clone());
                        leaves(child, path, seen);
                        path.pop();
                    }
                }
                Shape::List(child) | Shape::Map(child) if matches!(child.shape, Shape::Object { .. }) => {
                    path.push("*".into());
                    leaves(child, path, seen);
                    path.pop();
                }
                _ => seen.push(path.clone()),
            }
        }
        let mut seen = Vec::new();
        leaves(root(), &mut Vec::new(), &mut seen);
        for path in seen {
            let path = path.join(".");
            let used = USED.iter().any(|used| path == *used || path.starts_with(&format!("{used}.")));
            assert!(used != is_unused(&path), "{path} must stand in exactly one of the two lists");
        }
    }
}
