//! Commands as a person reads them: the words a shell would read back as the same arguments, on one line, with nothing
//! hidden in them.

use std::fmt::Write as _;

use crate::exec::{Join, Launch, Plan};
use crate::inert::{inert, inert_line, is_plain};

/// A line for each program, in order, each with how it follows from the one before it. A script that a shell has to
/// read is shown as it is behind the shell's own line.
pub(super) fn lines(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for step in plan.steps() {
        for (place, launch) in step.pipeline.iter().enumerate() {
            let joined = match (place, step.join) {
                _ if lines.is_empty() => "",
                (1.., _) => "| ",
                (0, Join::Then) => "; ",
                (0, Join::And) => "&& ",
                (0, Join::Or) => "|| ",
            };
            lines.push(format!("{joined}{}", command(launch, plan)));
        }
    }
    if let Some(script) = script_of(plan) {
        lines.push(inert(script));
    }
    lines
}

/// The script, if it is really what the shell is given.
fn script_of(plan: &Plan) -> Option<&str> {
    let script = plan.opaque()?.script.as_str();
    plan.launches().any(|launch| launch.argv.iter().skip(1).any(|word| word == script)).then_some(script)
}

fn command(launch: &Launch, plan: &Plan) -> String {
    let script = script_of(plan);
    let path = &launch.program.path;
    let mut words = Vec::new();
    // A program may do something else under another name.
    let file = path.rsplit('/').next().unwrap_or(path);
    let renamed = launch.argv.first().filter(|called| *called != path && *called != file);
    if let Some(called) = renamed {
        words.extend(["(exec".to_owned(), "-a".to_owned(), quoted(called)]);
    }
    words.push(quoted(path));
    for word in launch.argv.iter().skip(1) {
        words.push(if script == Some(word) { "⟨script⟩".to_owned() } else { quoted(word) });
    }
    let line = words.join(" ");
    if renamed.is_some() { format!("{line})") } else { line }
}

/// A word as a shell reads it back. What cannot be seen is written as an escape, as shells do; padding is counted.
pub(super) fn quoted(word: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte);
    if !word.is_empty() && word.bytes().all(bare) {
        return inert_line(word);
    }
    if word.chars().all(is_plain) {
        return inert_line(&format!("'{}'", word.replace('\'', r"'\''")));
    }
    let mut escaped = "$'".to_owned();
    for character in word.chars() {
        match character {
            '\n' => escaped.push_str("\\n"),
            '\t' => escaped.push_str("\\t"),
            '\r' => escaped.push_str("\\r"),
            '\'' | '\\' => escaped.extend(['\\', character]),
            plain if is_plain(plain) => escaped.push(plain),
            other => escape(&mut escaped, u32::from(other)),
        }
    }
    escaped.push('\'');
    inert_line(&escaped)
}

/// As bash writes a character by its number: always with all digits, so that none is taken from what follows.
fn escape(out: &mut String, code: u32) {
    let _ = match code {
        ..=0x7F => write!(out, "\\x{code:02x}"),
        0x80..=0xFFFF => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::approval::testing::{launch, plan, read_plan, shell_call};

    #[test]
    fn words_are_quoted_only_where_a_shell_needs_it() {
        for (word, shown) in [
            ("--oneline", "--oneline"),
            ("a=b/c.d:e,f@g%h+i_j", "a=b/c.d:e,f@g%h+i_j"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$(id)", "'$(id)'"),
            ("~", "'~'"),
            ("你好", "'你好'"),
            ("…", "'…'"),
            ("a\nb\t\r", r"$'a\nb\t\r'"),
            ("\u{1b}[2J", r"$'\x1b[2J'"),
            ("a\u{202E}b'\\", r"$'a\u202eb\'\\'"),
            ("\u{E0041}", r"$'\U000e0041'"),
            ("\u{85}\u{7f}", r"$'\u0085\x7f'"),
            ("⟨script⟩", r"$'\u27e8script⟩'"),
            ("e\u{301}", r"$'e\u0301'"),
        ] {
            assert_eq!(quoted(word), shown);
        }
        assert_eq!(quoted(&format!("a{}b", " ".repeat(40))), "'a⟨40 spaces⟩b'");
    }

    #[test]
    fn a_plan_is_shown_with_how_its_programs_follow_each_other() {
        let step = |join: &str, words: &[&[&str]]| {
            let pipeline: Vec<_> = words.iter().map(|words| launch(words)).collect();
            json!({ "join": join, "pipeline": pipeline })
        };
        let steps = json!([
            step("then", &[&["git", "log"], &["head", "-1"]]),
            step("and", &[&["a"]]),
            step("or", &[&["b"], &["c"]]),
            step("then", &[&["d", "x y"]]),
        ]);
        let expected = [
            "/usr/bin/git log",
            "| /usr/bin/head -1",
            "&& /usr/bin/a",
            "|| /usr/bin/b",
            "| /usr/bin/c",
            "; /usr/bin/d 'x y'",
        ];
        assert_eq!(lines(&read_plan(&steps, &json!(null))), expected);
    }

    #[test]
    fn a_program_that_is_called_by_another_name_says_so() {
        let named = |called: &str| {
            let mut launched = launch(&["busybox", "-c"]);
            launched["argv"][0] = called.into();
            lines(&read_plan(&json!([{ "join": "then", "pipeline": [launched] }]), &json!(null)))
        };
        assert_eq!(named("sh"), ["(exec -a sh /usr/bin/busybox -c)"]);
        assert_eq!(named("busybox"), ["/usr/bin/busybox -c"]);
        assert_eq!(named("/usr/bin/busybox"), ["/usr/bin/busybox -c"]);
    }

    #[test]
    fn a_script_is_shown_as_the_shell_reads_it() {
        let call = shell_call("echo $(id)\nrm \u{202E}x");
        let shown = lines(call.plan().unwrap());
        assert_eq!(shown, ["/usr/bin/bash -c ⟨script⟩", "echo $(id)\nrm ⟨U+202E⟩x"]);
    }

    #[test]
    fn a_script_that_the_shell_is_not_given_is_not_shown() {
        let steps = json!([{ "join": "then", "pipeline": [launch(&["bash", "-c", "rm -rf ."])] }]);
        let plan = read_plan(&steps, &json!({ "reason": "", "script": "echo hi" }));
        assert_eq!(lines(&plan), ["/usr/bin/bash -c 'rm -rf .'"]);
        let named = json!([{ "join": "then", "pipeline": [launch(&["bash"])] }]);
        let plan = read_plan(&named, &json!({ "reason": "", "script": "bash" }));
        assert_eq!(lines(&plan), ["/usr/bin/bash"]);
    }

    fn word() -> impl Strategy<Value = String> {
        prop_oneof!["[a-z '\"\\\\$`!*~#\\n\\t\u{202E}\u{1b}你⟨]{0,6}", "[^\\x00]{0,4}"]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn a_shell_reads_the_same_words_back(words in proptest::collection::vec(word(), 1..8)) {
            let line: Vec<_> = words.iter().map(|word| quoted(word)).collect();
            let script = format!("printf '%s\\0' {}", line.join(" "));
            let shell = Command::new("bash").args(["-c", &script]).env("LC_ALL", "C.UTF-8").output();
            let told = String::from_utf8(shell.unwrap().stdout).unwrap();
            let read: Vec<_> = told.split_terminator('\0').collect();
            prop_assert_eq!(read, words);
        }
    }

    proptest! {
        #[test]
        fn two_commands_never_read_the_same(
            one in proptest::collection::vec(word(), 0..4),
            two in proptest::collection::vec(word(), 0..4),
        ) {
            let shown = |words: &[String]| {
                let argv: Vec<_> = std::iter::once("git").chain(words.iter().map(String::as_str)).collect();
                lines(&plan(&[&argv]))
            };
            prop_assert_eq!(one == two, shown(&one) == shown(&two));
        }
    }
}
