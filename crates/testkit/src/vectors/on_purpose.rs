//! Where ours differs on purpose, and why. A row knows our answer too, so that it excuses no other one.

use serde_json::Value;

/// Whether a row is about this case, of which ours is the answer.
type Matcher = fn(&Value, &Value) -> bool;

const TABLE: &[(&str, Matcher, &str)] = &[
    (
        "gateway_local",
        |case, ours| !case["in"]["headers"]["x-forwarded-for"].is_null() && *ours == false,
        "what a proxy's header says can be made up: whoever comes through one is not local",
    ),
    (
        "gateway_auth",
        |case, ours| case["in"]["auth"]["mode"] == "password" && ours["ok"] == false,
        "a home has one random token and no password, so a password lets nobody in",
    ),
    (
        "gateway_auth",
        |case, ours| case["err"]["name"] == "RangeError" && ours["reason"] == "token_mismatch",
        "a wrong token of another length is a wrong token and no fault",
    ),
    (
        "session_store_key",
        |case, ours| case["in"]["sessionKey"] == "" && *ours == "agent:main:main",
        "no name means the main conversation",
    ),
    (
        "session_store_key",
        |case, ours| case["out"] == "global" && (*ours == "agent:main:global" || *ours == "unknown key"),
        "every conversation belongs to an agent; there is none for all of them",
    ),
    (
        "session_store_key",
        |case, ours| {
            let named = !case["in"]["cfg"]["session"]["mainKey"].is_null();
            named && (*ours == "unknown key" || *ours == "agent:main:main")
        },
        "the main conversation has one name that no key changes",
    ),
    (
        "device_verify",
        |case, ours| text(&case["in"], "publicKey").is_empty() && ours["ok"] == false,
        "what is no key has no name",
    ),
    (
        "reasoning_strip",
        |case, ours| in_code(case, "text") && ours[0] == case["text"],
        "a tag in code is text that people asked about, not a thought",
    ),
    (
        "reasoning_strip",
        |case, ours| ours[0] == case["strict"] || ours[0] == case["preserve"],
        "there is one way with a thought that has no end: it is shown where nothing else would be",
    ),
    (
        "silent",
        |case, ours| *ours == false && case["silent"] == true && text(case, "text").contains("NO_REPLY"),
        "words beside the token were meant for somebody: they are sent without it",
    ),
    (
        "reply_tags",
        |case, ours| in_code(&case["in"], "text") && ours["cleaned"] == case["in"]["text"],
        "a tag in code is text that people asked about, not a directive",
    ),
    (
        "reply_tags",
        |case, ours| {
            let tag = "[[audio_as_voice]]";
            let without = text(&case["out"], "cleaned").replace(tag, "");
            text(&case["in"], "text").contains(tag) && text(ours, "cleaned") == without.trim()
        },
        "one filter takes out every directive; theirs has a second one for audio",
    ),
    (
        "audio_tags",
        |case, ours| {
            let kept = &case["in"]["options"]["stripReplyTags"] == false;
            let same = |field: &str| ours[field] == case["out"][field];
            let fields = ["replyToId", "replyToExplicitId", "replyToCurrent", "hasReplyTag", "audioAsVoice"];
            kept && fields.into_iter().all(same) && !text(ours, "text").contains("[[")
        },
        "a directive is never shown, so there is no option to leave it in",
    ),
    (
        "ssrf",
        |case, ours| text(case, "a").starts_with("64:ff9b:") && *ours == true,
        "an address behind NAT64 is judged as the one it leads to",
    ),
    (
        "hook_template",
        |case, ours| text(&case["in"], "template").contains(".length") && *ours == "",
        "a list has no key `length` in the body that was sent",
    ),
    (
        "hook_config",
        |case, ours| {
            let hooks = &case["in"]["hooks"];
            ours.is_string() && (hooks["enabled"].is_string() || hooks["maxBodyBytes"].as_i64() < Some(0))
        },
        "a wrong value is named when the configuration is read, and not passed over",
    ),
    (
        "hook_token",
        |case, ours| {
            case["out"]["fromQuery"] == true && ours["fromQuery"] == true && ours.get("token").is_none()
        },
        "a token in an address ends up in logs: it is refused",
    ),
    (
        "exec",
        |case, ours| substitutes(text(case, "c")) && ours[0] == false,
        "double quotes do not stop a substitution: it would run any command behind an allowed word",
    ),
    (
        "exec",
        |case, ours| text(case, "c").split(' ').next().is_some_and(is_assignment) && ours[0] == false,
        "a variable before a command is not the name of a program",
    ),
    (
        "exec",
        |case, ours| text(case, "c") == "git log | jq ." && ours[1] == true,
        "the dot is jq's program and not a file, so the filter is a safe one",
    ),
    (
        "failover_error",
        |case, ours| case["err"]["code"] == "ECONNRESET" && ours.is_null(),
        "a connection that broke before anything was shown is tried once more with the same model",
    ),
    (
        "env_subst",
        |case, ours| text(&case["in"], "value") == "${A:-x}" && *ours == case["in"]["env"]["A"],
        "a default is part of our grammar; theirs leaves the text as it is",
    ),
    (
        "config_path_set",
        |case, ours| {
            let list = case["in"]["root"]["a"].as_array().map(Vec::len);
            list.is_some()
                && ours["a"].as_array().map(Vec::len) == list
                && ours["a"][0] == case["in"]["value"]
        },
        "an index edits the element; theirs turns the list into an object and loses the rest",
    ),
    (
        "config_value",
        |case, ours| case["in"].as_str() == ours["value"].as_number().map(ToString::to_string).as_deref(),
        "an integer keeps its digits; theirs is rounded to a double",
    ),
    (
        "config_value",
        |case, ours| case["in"] == "\"" && ours["value"] == "\"",
        "a lone quote is text; theirs drops it",
    ),
    (
        "compact_instructions",
        |case, ours| ours.is_null() && text(&case["in"], "rawBody").contains(": /"),
        "who speaks stands beside a message and not in it: a command begins the message",
    ),
    (
        "compact_instructions",
        |case, ours| text(&case["in"], "rawBody").strip_prefix("/compact ") == ours.as_str(),
        "instructions of several lines keep their lines",
    ),
    (
        "think_level",
        |case, ours| text(case, "in") == " high" && *ours == "high",
        "blanks around a level mean nothing",
    ),
    (
        "usage_cost",
        |case, ours| case["in"]["usage"]["input"].as_i64() == Some(-10) && ours[0].as_f64() == Some(7.5e-5),
        "nobody is paid for tokens: fewer than none is none",
    ),
    (
        "usage_format",
        |case, ours| case["in"] == 999_999 && ours[0] == "1.0m",
        "what rounds to a million is told as one",
    ),
];

/// Why this answer to a case is not the recorded one.
pub(super) fn reason(group: &str, case: &Value, ours: &Value) -> Option<&'static str> {
    let row = TABLE.iter().find(|(name, matches, _)| *name == group && matches(case, ours));
    row.map(|(_, _, reason)| *reason)
}

fn text<'c>(case: &'c Value, field: &str) -> &'c str {
    case[field].as_str().unwrap_or_default()
}

/// Whether every tag of a text stands between backticks.
fn in_code(case: &Value, field: &str) -> bool {
    let text = text(case, field);
    let is_plain = |text: &str| !text.contains('<') && !text.contains("[[");
    text.contains('`') && text.split('`').step_by(2).all(is_plain)
}

/// Whether a shell would run what stands behind `$(`: not where single quotes hold it.
fn substitutes(command: &str) -> bool {
    let before = command.split_once("$(").map(|(before, _)| before.matches('\'').count());
    before.is_some_and(|quotes| quotes % 2 == 0)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && !name.contains(['-', '/']))
}
