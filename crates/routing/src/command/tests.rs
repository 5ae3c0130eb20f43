//! What is a command, what is a directive, and what goes to the model as it was written.

use proptest::prelude::*;
use tidegate_protocol::{ThinkingLevel, Verbose};

use super::*;

fn read(text: &str) -> Line {
    let is_model = |word: &str| matches!(word, "opus" | "openai/gpt-5.2" | "anthropic/claude-opus-4-5@work");
    parse_line(
        text,
        &Vocabulary { is_model: &is_model, reset_triggers: &["fresh start".to_owned(), " ".to_owned()] },
    )
}

fn command(text: &str) -> Option<Command> {
    let line = read(text);
    assert!(line.directives == SessionSettings::default() && line.rest.is_empty(), "{text}: {line:?}");
    line.command
}

fn thinking(level: ThinkingLevel) -> SessionSettings {
    SessionSettings { thinking: Some(level), ..SessionSettings::default() }
}

fn model(name: &str) -> SessionSettings {
    SessionSettings { model: Some(name.to_owned()), ..SessionSettings::default() }
}

fn plain(rest: &str) -> Line {
    Line { rest: rest.to_owned(), ..Line::default() }
}

fn with(directives: SessionSettings, rest: &str) -> Line {
    Line { command: None, directives, rest: rest.to_owned() }
}

#[test]
fn every_command_is_read_whatever_its_case() {
    let words = |text: &str| Some(text.to_owned());
    for (text, expected) in [
        ("/new", Command::New),
        (" /RESET ", Command::Reset),
        ("/stop", Command::Stop { all: false }),
        ("/stop please", Command::Stop { all: false }),
        ("/stop ALL ", Command::Stop { all: true }),
        ("/compact", Command::Compact(None)),
        ("/compact: keep the names", Command::Compact(words("keep the names"))),
        ("/compact : : y", Command::Compact(words(": y"))),
        ("/compact a\nb", Command::Compact(words("a\nb"))),
        ("/status", Command::Status),
        ("/HELP", Command::Help),
        ("/commands", Command::Help),
        ("/context", Command::Context),
        ("/title", Command::Title(None)),
        ("/title The /think trap", Command::Title(words("The /think trap"))),
        ("/model", Command::Show(Setting::Model)),
        ("/t", Command::Show(Setting::Think)),
        ("/verbose:", Command::Show(Setting::Verbose)),
    ] {
        assert_eq!(command(text), Some(expected), "{text}");
    }
}

#[test]
fn what_follows_a_new_conversation_is_its_first_message() {
    let begun =
        |command, directives, rest: &str| Line { command: Some(command), directives, rest: rest.to_owned() };
    let none = SessionSettings::default;
    for (text, expected) in [
        ("/new hello there", begun(Command::New, none(), "hello there")),
        ("/reset: now", begun(Command::Reset, none(), "now")),
        ("/new\nfirst\nsecond", begun(Command::New, none(), "first\nsecond")),
        ("/new @opus /think high why?", {
            let directives = SessionSettings { thinking: Some(ThinkingLevel::High), ..model("opus") };
            begun(Command::New, directives, "why?")
        }),
        ("/new /think high", begun(Command::New, thinking(ThinkingLevel::High), "")),
        ("/new /think low /verbose loud", begun(Command::New, thinking(ThinkingLevel::Low), "/verbose loud")),
        ("Fresh Start with this", begun(Command::New, none(), "with this")),
        ("fresh start", begun(Command::New, none(), "")),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
    assert_eq!(read("fresh starts are hard"), plain("fresh starts are hard"));
}

#[test]
fn a_directive_alone_is_for_the_conversation() {
    for (text, directives) in [
        ("/think high", thinking(ThinkingLevel::High)),
        ("/think:high", thinking(ThinkingLevel::High)),
        ("/Thinking: x_high", thinking(ThinkingLevel::Xhigh)),
        ("/t ultrathink", thinking(ThinkingLevel::High)),
        ("/v on", SessionSettings { verbose: Some(Verbose::On), ..SessionSettings::default() }),
        (
            "/verbose everything",
            SessionSettings { verbose: Some(Verbose::Full), ..SessionSettings::default() },
        ),
        ("/model:openai/gpt-5.2", model("openai/gpt-5.2")),
        ("@opus", model("opus")),
        ("/think low\n/model opus", SessionSettings { thinking: Some(ThinkingLevel::Low), ..model("opus") }),
        ("/think low /think high", thinking(ThinkingLevel::High)),
    ] {
        assert_eq!(command(text), Some(Command::Set(directives)), "{text}");
    }
}

#[test]
fn a_directive_among_words_is_for_that_message() {
    for (text, expected) in [
        ("/think high what is 2+2", with(thinking(ThinkingLevel::High), "what is 2+2")),
        ("/think high, what is 2+2", with(thinking(ThinkingLevel::High), "what is 2+2")),
        ("/thinking:medium x", with(thinking(ThinkingLevel::Medium), "x")),
        ("@openai/gpt-5.2 question", with(model("openai/gpt-5.2"), "question")),
        ("@opus: question", with(model("opus"), "question")),
        ("/model: anthropic/claude-opus-4-5@work hi", with(model("anthropic/claude-opus-4-5@work"), "hi")),
        ("what is 2+2 /think high", with(thinking(ThinkingLevel::High), "what is 2+2")),
        ("please  /think high  now", with(thinking(ThinkingLevel::High), "please  now")),
        ("a\n/think low\nb", with(thinking(ThinkingLevel::Low), "a\nb")),
        ("a\n\nb /think low\nc", with(thinking(ThinkingLevel::Low), "a\n\nb\nc")),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn a_value_that_is_none_is_told_to_whoever_begins_with_it() {
    let invalid = |setting, value: &str| Some(Command::Invalid { setting, value: value.to_owned() });
    assert_eq!(command("/think loud"), invalid(Setting::Think, "loud"));
    assert_eq!(command("/think about it"), invalid(Setting::Think, "about"));
    assert_eq!(command("/model nosuch hi"), invalid(Setting::Model, "nosuch"));
    assert_eq!(command("/verbose hello"), invalid(Setting::Verbose, "hello"));
}

#[test]
fn a_word_behind_a_slash_that_is_no_command_is_named_when_it_stands_alone() {
    assert_eq!(command("/newx"), Some(Command::Unknown("newx".to_owned())));
    assert_eq!(command(" /dock-telegram "), Some(Command::Unknown("dock-telegram".to_owned())));
}

#[test]
fn other_words_go_through_untouched() {
    for text in [
        "",
        "hello",
        "  spaces stay \n",
        "/",
        "/ x",
        "//think high",
        "/tmp/x is a file",
        "/tmp/x",
        "/unknown words",
        "/unknown: x",
        "/help me with this",
        "/status of the project",
        "/stop@somebody",
        "/1",
        "http://x/think high",
        "(/think high)",
        "please /think about it",
        "please /think hard? now",
        "hello /verbose",
        "/think\nabout this",
        "see /tmp/x /think",
        "ask @opus about it",
        "@somebody hello",
        "@",
        "stop",
        "the docs say `/think high` does it",
        "he wrote \"use /think high there\" to me",
        "他说「用 /think high 试试」",
        "like so:\n```\n/think high\n```",
        "> /think high\nwhat does that do?",
    ] {
        assert_eq!(read(text), plain(text), "{text}");
    }
}

#[test]
fn what_is_quoted_stays_when_something_else_is_taken() {
    let line = read("/think low explain `/think high`:\n> /verbose on\n```\n/model opus\n```");
    assert_eq!(
        line,
        with(thinking(ThinkingLevel::Low), "explain `/think high`:\n> /verbose on\n```\n/model opus\n```")
    );
}

#[test]
fn a_word_that_ends_things_is_a_whole_message() {
    for text in ["stop", " Wait\n", "EXIT", "esc", "abort", "interrupt"] {
        assert!(is_abort_word(text), "{text}");
    }
    for text in ["", "Stop!", "please stop", "/stop", "stopp"] {
        assert!(!is_abort_word(text), "{text}");
    }
}

/// Texts made of what has a meaning somewhere.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("/think"),
        Just("/v"),
        Just("/new"),
        Just("@opus"),
        Just("/model"),
        Just("high"),
        Just("on"),
        Just("opus"),
        Just(" "),
        Just("\n"),
        Just(":"),
        Just("/"),
        Just("`"),
        Just("```"),
        Just(">"),
        Just("\""),
        Just("“"),
        Just("é"),
        Just("word"),
    ];
    proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

proptest! {
    #[test]
    fn whatever_is_written_nothing_is_added_and_plain_text_stays(text in prop_oneof![text(), any::<String>()]) {
        let line = read(&text);
        if line.command.is_none() && line.directives == SessionSettings::default() {
            prop_assert_eq!(&line.rest, &text);
        }
        // What is left is what was there, in its order.
        let written = letters(&text);
        let mut from = written.chars();
        prop_assert!(letters(&line.rest).chars().all(|c| from.any(|other| other == c)), "{:?}", line);
    }

    #[test]
    fn a_directive_can_stand_between_any_two_words(before in "[a-z]{1,6}( [a-z]{1,6}){0,3}", after in "[a-z]{1,6}( [a-z]{1,6}){0,3}") {
        let line = read(&format!("{before} /think high {after}"));
        prop_assert_eq!(line, with(thinking(ThinkingLevel::High), &format!("{before} {after}")));
    }
}
