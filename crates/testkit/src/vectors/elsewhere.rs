//! Groups that are known and have no function here, each with the reason. When one gets a function its row goes: a test
//! sees to that.

/// The groups, by the beginning of their names where many have one, and why their cases are skipped.
const TABLE: &[(&[&str], &str)] = &[
    (
        &["fts", "bm25", "hybrid", "mem_chunk"],
        "memory is designed and not built: notes are files that nothing searches yet",
    ),
    (&["frontmatter"], "skills are designed and not built"),
    (&["cron_", "abs_time", "active_hours"], "cron and heartbeats are designed and not built"),
    (
        &["short_hash"],
        "we shorten no ids of calls by a hash: a vendor that has rules for them gets ids of its own kind",
    ),
    (&["hook_"], "webhooks that wake an agent are designed and not built"),
    (
        &[
            "allow_",
            "mention_",
            "group_policy",
            "group_history_key",
            "command_gate",
            "pairing_",
            "send_policy",
            "slack_slug",
            "channel_slug",
            "phone_norm",
            "target_",
            "tg_helpers",
            "telegram_caption",
            "md_",
            "line_strip_markdown",
            "chunk_",
            "response_prefix",
            "envelope_strip",
            "msg_template",
        ],
        "the one channel is `local`: who may write on a network, and how a text looks there, comes with the networks",
    ),
    (
        &["route", "bindings_accounts", "debounce_", "dedupe_key", "queue_"],
        "bindings, debouncing and queue modes are designed and not built",
    ),
    (
        &[
            "session_key_store",
            "session_key_thread",
            "session_key_ctx",
            "session_store_key",
            "session_classify",
        ],
        "a conversation has a structured key here; theirs is a text that belongs to a dialect of the gateway",
    ),
    (
        &[
            "inline_",
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
        &["gateway_", "net_helpers", "device_", "protocol_validate", "error_shape", "merge_patch"],
        "there is no WebSocket dialect yet, and our own doors are tested over the wire",
    ),
    (
        &["openai_prompt", "openresponses_prompt", "openai_routing"],
        "the gateway makes a prompt of its own from such a request; its tests are over the wire",
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
    let is_meant = |name: &&str| group == *name || (name.ends_with('_') && group.starts_with(*name));
    TABLE.iter().find(|(names, _)| names.iter().any(is_meant)).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_has_a_function_is_not_among_those_that_have_none() {
        for (names, _) in TABLE {
            for name in names.iter().filter(|name| !name.ends_with('_')) {
                assert!(super::super::answer_of(name).is_none(), "{name} has a function: take its row out");
            }
        }
        for answered in ["silent", "skey", "compact_instructions", "env", "exec", "usage_cost"] {
            assert_eq!(reason(answered), None, "{answered}");
        }
    }

    #[test]
    fn a_beginning_stands_for_all_names_that_begin_so() {
        assert_eq!(reason("hook_token"), reason("hook_mapping"));
        assert!(reason("hook_token").is_some() && reason("hooks").is_none() && reason("router").is_none());
    }
}
