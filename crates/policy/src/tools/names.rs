//! The names of tools as policy knows them: one spelling each, their groups, and patterns over both.

use std::borrow::Cow;

use super::glob;

/// Every tool that is part of the program, in its own spelling, also those that come with a later part of it: a list
/// that names one of them is no mistake.
pub const BUILT_IN: [&str; 33] = [
    "agents_list",
    "apply_patch",
    "browser",
    "canvas",
    "cron",
    "edit",
    "exec",
    "find",
    "fs.list_dir",
    "fs.read_file",
    "gateway",
    "grep",
    "http.request",
    "image",
    "ls",
    "memory_append",
    "memory_get",
    "memory_search",
    "message",
    "nodes",
    "process",
    "read",
    "session_status",
    "sessions_history",
    "sessions_list",
    "sessions_send",
    "sessions_spawn",
    "shell.pwd",
    "time.now",
    "tools.echo",
    "web_fetch",
    "web_search",
    "write",
];

/// `fs.list_dir` and `fs.read_file` are in it although no other gateway has them there: whoever denies the group means
/// every way to the files.
const FS: [&str; 9] =
    ["read", "write", "edit", "apply_patch", "ls", "find", "grep", "fs.list_dir", "fs.read_file"];
const RUNTIME: [&str; 2] = ["exec", "process"];
pub(super) const WEB: [&str; 3] = ["web_search", "web_fetch", "http.request"];
pub(super) const BROWSER: &str = "browser";
const MEMORY: [&str; 3] = ["memory_search", "memory_get", "memory_append"];
const SESSIONS: [&str; 5] =
    ["sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status"];
const UI: [&str; 2] = ["browser", "canvas"];
const AUTOMATION: [&str; 2] = ["cron", "gateway"];
const MESSAGING: [&str; 1] = ["message"];
const NODES: [&str; 1] = ["nodes"];

/// A tool's name as rules compare it: trimmed, in lower case, its own name where an alias was given.
pub fn normalise(name: &str) -> Cow<'_, str> {
    let name = name.trim();
    if name.chars().any(char::is_uppercase) {
        let lower = name.to_lowercase();
        return own_name(&lower).map_or(Cow::Owned(lower), Cow::Borrowed);
    }
    Cow::Borrowed(own_name(name).unwrap_or(name))
}

fn own_name(alias: &str) -> Option<&'static str> {
    Some(match alias {
        "bash" | "bash.exec" => "exec",
        "apply-patch" => "apply_patch",
        "file.read" => "read",
        "file.write" => "write",
        "file.edit" => "edit",
        "glob" => "find",
        _ => return None,
    })
}

/// A tool that exists.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known<'a> {
    /// Normalised.
    pub(super) name: &'a str,
    pub(super) built_in: bool,
}

/// A name, a group or a glob of some list, read once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NamePattern {
    Name(String),
    Glob(String),
    Group(&'static [&'static str]),
    /// `group:tidegate`
    BuiltIn,
    /// `group:plugins`: everything that is not part of the program, from the configuration or an MCP server.
    Plugins,
    /// A group that does not exist. It covers nothing, and a warning says so.
    NoSuchGroup,
}

impl NamePattern {
    pub(super) fn new(text: &str) -> Self {
        let name = normalise(text);
        if let Some(group) = name.strip_prefix("group:") {
            return Self::group(group);
        }
        if name.contains('*') { Self::Glob(name.into_owned()) } else { Self::Name(name.into_owned()) }
    }

    fn group(name: &str) -> Self {
        Self::Group(match name {
            "fs" => &FS,
            "runtime" => &RUNTIME,
            "web" => &WEB,
            "memory" => &MEMORY,
            "sessions" => &SESSIONS,
            "ui" => &UI,
            "automation" => &AUTOMATION,
            "messaging" => &MESSAGING,
            "nodes" => &NODES,
            "tidegate" => return Self::BuiltIn,
            "plugins" => return Self::Plugins,
            _ => return Self::NoSuchGroup,
        })
    }

    pub(super) fn covers(&self, tool: Known<'_>) -> bool {
        match self {
            Self::Name(name) => name == tool.name,
            Self::Glob(glob) => glob::fits(glob, tool.name),
            Self::Group(names) => names.contains(&tool.name),
            Self::BuiltIn => tool.built_in,
            Self::Plugins => !tool.built_in,
            Self::NoSuchGroup => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(pattern: &str) -> Vec<&'static str> {
        let pattern = NamePattern::new(pattern);
        let known = BUILT_IN.into_iter().map(|name| Known { name, built_in: true });
        known.filter(|tool| pattern.covers(*tool)).map(|tool| tool.name).collect()
    }

    #[test]
    fn every_spelling_of_a_tool_is_one_name() {
        for (written, name) in [
            ("exec", "exec"),
            (" EXEC ", "exec"),
            ("bash", "exec"),
            ("Bash.Exec", "exec"),
            ("apply-patch", "apply_patch"),
            ("Apply-Patch", "apply_patch"),
            ("file.read", "read"),
            ("file.write", "write"),
            ("file.edit", "edit"),
            ("Glob", "find"),
            ("web.fetch", "web.fetch"),
            ("ÄRGER", "ärger"),
        ] {
            assert_eq!(normalise(written), name, "{written}");
        }
    }

    #[test]
    fn a_group_covers_its_tools_and_no_other() {
        for (group, tools) in [
            (
                "group:fs",
                &[
                    "apply_patch",
                    "edit",
                    "find",
                    "fs.list_dir",
                    "fs.read_file",
                    "grep",
                    "ls",
                    "read",
                    "write",
                ][..],
            ),
            ("group:runtime", &["exec", "process"]),
            ("Group:Web", &["http.request", "web_fetch", "web_search"]),
            ("group:memory", &["memory_append", "memory_get", "memory_search"]),
            (
                "group:sessions",
                &["session_status", "sessions_history", "sessions_list", "sessions_send", "sessions_spawn"],
            ),
            ("group:ui", &["browser", "canvas"]),
            ("group:automation", &["cron", "gateway"]),
            ("group:messaging", &["message"]),
            ("group:nodes", &["nodes"]),
            ("group:plugins", &[]),
            ("group:nothing", &[]),
            ("group:*", &[]),
            ("sessions_*", &["sessions_history", "sessions_list", "sessions_send", "sessions_spawn"]),
            ("FS.*", &["fs.list_dir", "fs.read_file"]),
        ] {
            assert_eq!(covered(group), tools, "{group}");
        }
        assert_eq!(covered("group:tidegate"), BUILT_IN);
        assert_eq!(covered("*"), BUILT_IN);
    }

    #[test]
    fn what_is_not_built_in_is_a_plugin() {
        let custom = Known { name: "deploy", built_in: false };
        assert!(NamePattern::new("group:plugins").covers(custom));
        assert!(!NamePattern::new("group:tidegate").covers(custom));
        assert!(NamePattern::new("dep*").covers(custom));
        assert!(NamePattern::new("Deploy").covers(custom));
    }

    #[test]
    fn every_built_in_name_is_spelled_as_rules_compare_it() {
        assert!(BUILT_IN.iter().all(|name| normalise(name) == *name));
        assert!(BUILT_IN.is_sorted());
    }
}
