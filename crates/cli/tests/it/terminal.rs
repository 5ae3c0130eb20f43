//! What a person sees: the program on a real terminal, which `script` provides.

use std::path::Path;

use crate::home::{Home, PROGRAM};
use crate::log::Log;
use crate::process::{Call, Done};

const ESCAPE: char = '\u{1b}';

/// Runs the program on a pseudo-terminal and answers what appeared there.
pub(crate) fn on_terminal(home: &Home, words: &[&str], typed: &str, env: &[(&str, &str)]) -> Done {
    on_terminal_in(home, home.around(), words, typed, env)
}

/// The same in a folder.
pub(crate) fn on_terminal_in(
    home: &Home,
    folder: &Path,
    words: &[&str],
    typed: &str,
    env: &[(&str, &str)],
) -> Done {
    let quoted: Vec<_> =
        [PROGRAM].iter().chain(words).map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    let call = Call::new("script", &["-qec", &quoted.join(" "), "/dev/null"])
        .env("TIDEGATE_HOME", home.root())
        .env("HOME", home.around().join("user"))
        .env("TERM", "xterm-256color")
        .env("SHELL", "/bin/sh")
        .inside(folder)
        .stdin(typed);
    let mut done = env.iter().fold(call, |call, (name, value)| call.env(name, value)).run();
    done.stdout = done.stdout.replace("\r\n", "\n");
    done
}

#[test]
fn a_person_reads_the_plain_answer() {
    let home = Home::new();
    let done = on_terminal(&home, &["ask", "你好"], "", &[]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let log = Log::of(&home, "main");
    assert_eq!(done.stdout, format!("{}\n", log.answers()[0]), "the answer and nothing else, no JSON");
}

#[test]
fn with_json_a_terminal_gets_the_object_too() {
    let home = Home::new();
    let done = on_terminal(&home, &["ask", "--json", "hi"], "", &[]);
    assert_eq!(done.json()["result"], Log::of(&home, "main").answers()[0]);
}

#[test]
fn the_answer_streams_before_it_is_complete() {
    let home = Home::new();
    let fault = [("TIDEGATE_FAULT", "models.offline.delta=hang@3")];
    let done = on_terminal(&home, &["ask", "--timeout", "0.3", "a question to be cut off"], "", &fault);
    assert_eq!(done.code, Some(1), "{done:?}");
    let first = done.stdout.lines().next().unwrap();
    assert!(first.starts_with("[stub-echo][lc-"), "what came before the stall is there: {done:?}");
    assert!(!first.contains("cut off"), "and what did not come is not: {done:?}");
    assert!(done.stdout.contains("\n[DEADLINE_EXCEEDED] "), "the error has a line of its own: {done:?}");
    assert!(!done.stdout.contains('{'), "no JSON on a terminal: {done:?}");
}

#[test]
fn an_error_on_a_terminal_is_words_and_no_json() {
    let home = Home::new();
    for (words, code) in [
        (["ask"].as_slice(), "[ASK_INPUT_REQUIRED] "),
        (&["ask", "--bogus"], "[UNKNOWN_OPTION] "),
        (&["sessions", "show", "nobody"], "[NOT_FOUND] "),
    ] {
        let done = on_terminal(&home, words, "", &[]);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.stdout.starts_with(code) && !done.stdout.contains('{'), "{done:?}");
    }
}

#[test]
fn colour_is_for_terminals_and_can_be_turned_off() {
    let home = Home::new();
    home.ask("hi");
    let coloured: &[&[&str]] =
        &[&["sessions", "list"], &["sessions", "show", "main"], &["status"], &["--help"]];
    for words in coloured {
        assert!(on_terminal(&home, words, "", &[]).stdout.contains(ESCAPE), "{words:?}");
        for off in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            let plain = on_terminal(&home, words, "", &[off]).stdout;
            assert!(!plain.contains(ESCAPE), "{words:?} with {off:?}: {plain:?}");
            assert_eq!(
                plain,
                home.call(words).ok().stdout,
                "{words:?}: a pipe gets the same, without colour"
            );
        }
    }
    let answer = on_terminal(&home, &["ask", "again"], "", &[("NO_COLOR", "1")]);
    assert!(!answer.stdout.contains(ESCAPE), "{answer:?}");
}

#[test]
fn columns_line_up_in_colour_as_they_do_without() {
    let home = Home::new();
    home.ask_in("a-rather-long-name", "hi");
    home.ask_in("会话", "hi");
    let without_escapes = |text: &str| {
        let mut plain = String::new();
        let mut parts = text.split(ESCAPE);
        plain.push_str(parts.next().unwrap());
        for part in parts {
            plain.push_str(part.split_once('m').unwrap().1);
        }
        plain
    };
    for words in [["sessions", "list"], ["runs", "list"]] {
        let coloured = on_terminal(&home, &words, "", &[("COLUMNS", "200")]).stdout;
        assert_eq!(without_escapes(&coloured), home.call(&words).ok().stdout, "{words:?}");
    }
}

#[test]
fn a_message_cannot_steer_the_terminal_that_shows_it() {
    let home = Home::new();
    home.ask("\u{1b}]0;owned\u{7}\u{1b}[31mred");
    home.ask_in("\u{1b}[2Jname", "hi");
    let request = home.runs()[0]["requestId"].as_str().unwrap().to_owned();
    let shown: &[&[&str]] = &[
        &["sessions", "list"],
        &["sessions", "show", "main"],
        &["runs", "list"],
        &["runs", "show", &request],
        &["runs", "replay", &request],
        &["ask", "\u{1b}[31magain"],
        &["sessions", "show", "\u{1b}[2Jnobody"],
        &["\u{1b}[2Jbogus"],
    ];
    for words in shown {
        let done = on_terminal(&home, words, "", &[("NO_COLOR", "1")]);
        assert!(!done.stdout.contains([ESCAPE, '\u{7}']), "{words:?}: {done:?}");
    }
}

#[test]
fn deleting_asks_first_and_takes_no_for_an_answer() {
    let home = Home::new();
    home.ask("one");
    for (typed, deleted) in [("\n", false), ("n\n", false), ("y\n", true)] {
        let done = on_terminal(&home, &["sessions", "delete", "main"], typed, &[]);
        assert!(
            done.stdout.contains("Delete session main for good: 2 messages, and its runs? [y/N]"),
            "{done:?}"
        );
        assert_eq!(done.code, Some(i32::from(!deleted)), "{done:?}");
        assert_eq!(home.sessions().is_empty(), deleted, "{typed:?}: {done:?}");
    }
}

#[test]
fn the_lists_keep_to_a_narrow_terminal_and_break_no_word() {
    let home = Home::new();
    home.call(&["ask", "--session", "a-rather-long-name-of-a-session", "how do I get to Rome by train"]).ok();
    for words in [["sessions", "list"].as_slice(), &["runs", "list"]] {
        let done = on_terminal(&home, words, "", &[("NO_COLOR", "1"), ("COLUMNS", "60")]);
        assert!(done.stdout.lines().all(|line| line.chars().count() <= 60), "{done:?}");
        let times = done.stdout.split_whitespace().filter(|word| word.ends_with('Z') && word.contains('T'));
        assert!(times.into_iter().any(|time| time.len() == 24), "a time in one piece: {done:?}");
    }
}
