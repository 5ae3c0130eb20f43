//! Groups that are known and have no function here, each with the reason. When one gets a function its row goes: a test
//! sees to that.

/// The groups by their whole names, so that a new one is seen, and why their cases are skipped.
const TABLE: &[(&[&str], &str)] = &[
    (
        &["fts", "bm25", "hybrid", "mem_chunk"],
        "memory is designed and not built: notes are files that nothing searches yet",
    ),
    (&["frontmatter"], "skills are designed and not built"),
    (
        &["cron_next", "cron_next_tz", "cron_normalize", "abs_time", "active_hours"],
        "cron and heartbeats are designed and not built",
    ),
    (
        &["short_hash"],
        "we shorten no ids of calls by a hash: a vendor that has rules for them gets ids of its own kind",
    ),
    (
        &[
            "allow_discord",
            "allow_signal",
            "allow_slack",
            "allow_telegram",
            "mention_explicit",
            "mention_gate",
            "mention_gate_bypass",
            "mention_match",
            "mention_strip",
            "mention_strip_structure",
            "group_policy",
            "group_history_key",
            "command_gate",
            "pairing_prune",
            "pairing_rules",
            "send_policy",
            "slack_slug",
            "channel_slug",
            "phone_norm",
            "target_discord_slack",
            "target_telegram",
            "tg_helpers",
            "telegram_caption",
            "md_ir",
            "md_signal",
            "md_slack",
            "md_tables",
            "md_telegram_chunks",
            "md_telegram_html",
            "line_strip_markdown",
            "chunk_discord",
            "chunk_limit",
            "chunk_markdown",
            "chunk_newline",
            "chunk_text",
            "response_prefix",
            "envelope_strip",
            "msg_template",
        ],
        "the one channel is `local`: who may write on a network, and how a text looks there, comes with the networks",
    ),
    (
        &[
            "route",
            "bindings_accounts",
            "debounce_ms",
            "debounce_sim",
            "dedupe_key",
            "queue_directive",
            "queue_normalize",
            "queue_settings",
        ],
        "bindings, debouncing and queue modes are designed and not built",
    ),
    (
        &["session_key_store", "session_key_thread", "session_key_ctx", "session_classify"],
        "a conversation has a structured key here; theirs is a text that belongs to a dialect of the gateway",
    ),
    (
        &[
            "inline_directives",
            "inline_simple",
            "inline_status_strip",
            "level_normalize",
            "command_normalize",
            "command_detect",
            "command_detect_cfg",
            "command_resolve",
            "command_serialize",
            "command_registry",
            "activation_command",
            "send_command",
            "allowlist_command",
            "approve_command",
            "bash_command",
            "config_command",
            "debug_command",
        ],
        "our commands are a table of their own, with other words and other forms",
    ),
    (
        &["gateway_auth_resolve"],
        "the token is made for a home and kept in a file of it; no key of the configuration and no variable has it",
    ),
    (
        &["net_helpers"],
        "who is local is one decision on a whole request, and the group `gateway_local` asks it",
    ),
    (
        &["model_default", "model_allowed"],
        "which model answers follows from our own configuration and policy: without one it is `offline`",
    ),
    (
        &["duration", "duration_format", "timeout_parse"],
        "durations in our configuration are whole numbers with a unit; the schema refuses others, and nothing prints them so",
    ),
];

/// Why a group has no function here, if that is known.
pub(super) fn reason(group: &str) -> Option<&'static str> {
    TABLE.iter().find(|(names, _)| names.contains(&group)).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_has_a_function_is_not_among_those_that_have_none() {
        for (names, _) in TABLE {
            for name in *names {
                assert!(super::super::answer_of(name).is_none(), "{name} has a function: take its row out");
            }
        }
        for answered in ["silent", "skey", "compact_instructions", "env", "exec", "usage_cost"] {
            assert_eq!(reason(answered), None, "{answered}");
        }
    }

    #[test]
    fn only_whole_names_are_known() {
        assert!(reason("chunk_text").is_some() && reason("queue_settings").is_some());
        for new in ["chunk_", "chunk_other", "allow_other", "md_other", "queue_other", "hooks", "router"] {
            assert_eq!(reason(new), None, "{new}");
        }
    }
}
