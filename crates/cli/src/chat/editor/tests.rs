//! Editing a line.

use proptest::prelude::*;

use super::super::line::Line;
use super::*;

fn choice(word: &str) -> Choice {
    Choice { word: word.to_owned(), about: String::new() }
}

fn editor() -> Editor {
    let completions = Completions {
        commands: ["/model", "/new", "/help"].map(choice).to_vec(),
        arguments: vec![
            ("/think".to_owned(), ["low", "high", "medium"].map(choice).to_vec()),
            ("/model".to_owned(), ["groq/fast", "groq/slow"].map(choice).to_vec()),
        ],
        models: ["anthropic/opus", "anthropic/sonnet", "groq/fast"].map(choice).to_vec(),
    };
    Editor::new(vec!["first".to_owned(), "git log".to_owned(), "git status".to_owned()], completions)
}

/// Types a text; a bar shows where the cursor is afterwards.
fn typed(editor: &mut Editor, keys: &[Key]) -> String {
    for key in keys {
        assert_eq!(editor.press(key.clone()), Deed::Nothing, "{key:?}");
    }
    format!("{}|{}", editor.text.before(), editor.text.after())
}

fn letters(text: &str) -> Vec<Key> {
    text.chars().map(Key::Char).collect()
}

#[test]
fn signs_of_several_characters_are_passed_and_removed_as_one() {
    let mut editor = editor();
    assert_eq!(typed(&mut editor, &letters("ae\u{301}👍🏽b")), "ae\u{301}👍🏽b|");
    assert_eq!(typed(&mut editor, &[Key::Left, Key::Left]), "ae\u{301}|👍🏽b");
    assert_eq!(typed(&mut editor, &[Key::Delete]), "ae\u{301}|b");
    assert_eq!(typed(&mut editor, &[Key::Backspace]), "a|b");
}

#[test]
fn words_and_lines_are_moved_over_and_cut() {
    let mut editor = editor();
    typed(&mut editor, &letters("one two-three"));
    assert_eq!(typed(&mut editor, &[Key::WordLeft]), "one two-|three");
    assert_eq!(typed(&mut editor, &[Key::Ctrl('w')]), "one |three");
    assert_eq!(typed(&mut editor, &[Key::End, Key::Ctrl('y')]), "one threetwo-|");
    assert_eq!(typed(&mut editor, &[Key::Home, Key::WordRight, Key::Ctrl('k')]), "one|");
    assert_eq!(typed(&mut editor, &[Key::Ctrl('u'), Key::Ctrl('y'), Key::Ctrl('a')]), "|one");
}

#[test]
fn a_text_can_have_several_lines() {
    let mut editor = editor();
    typed(&mut editor, &letters("one\\"));
    assert_eq!(typed(&mut editor, &[Key::Enter]), "one\n|", "a backslash asks for another line");
    typed(&mut editor, &letters("two"));
    assert_eq!(typed(&mut editor, &[Key::NewLine, Key::Paste("a\nb\x07".to_owned())]), "one\ntwo\na\nb|");
    assert_eq!(typed(&mut editor, &[Key::Up, Key::Up]), "one\nt|wo\na\nb");
    assert_eq!(typed(&mut editor, &[Key::End, Key::Up]), "one|\ntwo\na\nb");
    assert_eq!(editor.press(Key::Enter), Deed::Submit("one\ntwo\na\nb".to_owned()));
    assert!(editor.is_empty());
}

#[test]
fn two_backslashes_at_the_end_are_text() {
    let mut editor = editor();
    typed(&mut editor, &letters("a\\\\"));
    assert_eq!(editor.press(Key::Enter), Deed::Submit("a\\\\".to_owned()));
}

#[test]
fn nothing_is_not_sent() {
    let mut editor = editor();
    assert_eq!(typed(&mut editor, &[Key::Enter, Key::Char(' '), Key::Enter]), " |");
}

#[test]
fn history_is_searched_by_what_was_typed_and_gives_it_back() {
    let mut editor = editor();
    typed(&mut editor, &letters("git"));
    assert_eq!(typed(&mut editor, &[Key::Up]), "git status|");
    assert_eq!(typed(&mut editor, &[Key::Up]), "git log|");
    assert_eq!(typed(&mut editor, &[Key::Up]), "git log|", "there is no older one");
    assert_eq!(typed(&mut editor, &[Key::Down, Key::Down]), "git|");
    assert_eq!(typed(&mut editor, &[Key::Up, Key::Char('!')]), "git status!|");
    assert_eq!(typed(&mut editor, &[Key::Down]), "git status!|", "a text that was changed is a new one");
}

#[test]
fn what_was_entered_is_the_newest() {
    let mut editor = editor();
    typed(&mut editor, &letters("new"));
    editor.press(Key::Enter);
    assert_eq!(typed(&mut editor, &[Key::Up]), "new|");
    assert_eq!(typed(&mut editor, &[Key::Up]), "git status|");
}

#[test]
fn the_interrupt_key_clears_then_warns_then_leaves() {
    let mut editor = editor();
    typed(&mut editor, &letters("abc"));
    assert_eq!(editor.press(Key::Ctrl('c')), Deed::Nothing);
    assert!(editor.is_empty());
    assert_eq!(editor.press(Key::Ctrl('c')), Deed::Warn);
    typed(&mut editor, &[Key::Char('x'), Key::Backspace]);
    assert_eq!(editor.press(Key::Ctrl('c')), Deed::Warn, "another key in between begins anew");
    assert_eq!(editor.press(Key::Ctrl('c')), Deed::Leave);
}

#[test]
fn the_end_key_leaves_only_an_empty_line() {
    let mut editor = editor();
    typed(&mut editor, &[Key::Char('a'), Key::Home, Key::Ctrl('d')]);
    assert_eq!(editor.press(Key::Ctrl('d')), Deed::Leave);
}

#[test]
fn a_command_with_one_meaning_is_completed_and_others_are_gone_through() {
    let mut editor = editor();
    typed(&mut editor, &letters("/m"));
    assert_eq!(typed(&mut editor, &[Key::Tab]), "/model |");
    editor.take();
    typed(&mut editor, &letters("/"));
    assert_eq!(typed(&mut editor, &[Key::Tab]), "/model|");
    assert_eq!(typed(&mut editor, &[Key::Tab]), "/new|");
    assert_eq!(typed(&mut editor, &[Key::BackTab, Key::BackTab]), "/help|");
    assert_eq!(editor.press(Key::Esc), Deed::Nothing, "the menu is closed first");
    assert_eq!(editor.press(Key::Esc), Deed::Escape);
}

#[test]
fn models_are_completed_anywhere_and_arguments_after_their_command() {
    let mut editor = editor();
    typed(&mut editor, &letters("ask @an"));
    assert_eq!(typed(&mut editor, &[Key::Tab]), "ask @anthropic/|");
    assert_eq!(typed(&mut editor, &[Key::Tab, Key::Tab]), "ask @anthropic/sonnet|");
    editor.take();
    typed(&mut editor, &letters("@so"));
    assert_eq!(typed(&mut editor, &[Key::Tab]), "@anthropic/sonnet |", "without its provider");
    editor.take();
    typed(&mut editor, &letters("/model fa"));
    assert_eq!(typed(&mut editor, &[Key::Tab]), "/model groq/fast |");
    editor.take();
    typed(&mut editor, &letters("/think h"));
    assert_eq!(typed(&mut editor, &[Key::Tab]), "/think high |");
    editor.take();
    typed(&mut editor, &letters("path /he"));
    assert_eq!(typed(&mut editor, &[Key::Tab]), "path /he|", "a command begins the line");
}

#[test]
fn commands_that_fit_are_shown_while_one_is_typed() {
    let mut editor = editor();
    typed(&mut editor, &letters("/n"));
    assert_eq!(editor.choices().iter().map(|(choice, _)| choice.word.as_str()).collect::<Vec<_>>(), ["/new"]);
    typed(&mut editor, &letters("ew now"));
    assert!(editor.choices().is_empty());
}

#[test]
fn the_input_is_broken_at_the_end_of_the_row_and_the_cursor_follows() {
    let mut editor = editor();
    typed(&mut editor, &letters("你好吗abcd"));
    let shown = editor.shown(11, 5);
    assert_eq!(shown.rows.iter().map(Line::text).collect::<Vec<_>>(), ["› 你好吗ab", "  cd"]);
    assert_eq!(shown.cursor, (1, 4));
    typed(&mut editor, &[Key::Home]);
    assert_eq!(editor.shown(11, 1).cursor, (0, 2));
    typed(&mut editor, &[Key::End]);
    let shown = editor.shown(11, 1);
    assert_eq!(
        shown.rows.iter().map(Line::text).collect::<Vec<_>>(),
        ["  cd"],
        "the row of the cursor is shown"
    );
}

fn any_key() -> impl Strategy<Value = Key> {
    prop_oneof![
        any::<char>().prop_map(Key::Char),
        prop::sample::select(vec!['a', ' ', '\u{301}', '👍', '\u{200d}', '🇩', '你', '/', '@', '\\'])
            .prop_map(Key::Char),
        prop::sample::select(vec!['a', 'b', 'd', 'e', 'f', 'k', 'n', 'p', 'u', 'w', 'y']).prop_map(Key::Ctrl),
        any::<String>().prop_map(Key::Paste),
        prop::sample::select(vec![
            Key::Enter,
            Key::NewLine,
            Key::Tab,
            Key::BackTab,
            Key::Backspace,
            Key::Delete,
            Key::Left,
            Key::Right,
            Key::Up,
            Key::Down,
            Key::Home,
            Key::End,
            Key::WordLeft,
            Key::WordRight,
            Key::WordBackspace,
            Key::WordDelete,
            Key::Esc,
        ]),
    ]
}

proptest! {
    #[test]
    fn whatever_is_typed_the_cursor_stays_in_the_text_and_on_the_screen(
        keys in prop::collection::vec(any_key(), 0..60), width in 8_usize..40, most in 1_usize..6
    ) {
        let mut editor = editor();
        for key in keys {
            editor.press(key);
            prop_assert_eq!([editor.text.before(), editor.text.after()].concat(), editor.text.as_str());
            let shown = editor.shown(width, most);
            prop_assert!(shown.cursor.0 < shown.rows.len() && shown.rows.len() <= most);
            prop_assert!(shown.cursor.1 < width, "{:?}", shown);
        }
    }
}
