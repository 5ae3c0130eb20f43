//! What inert text promises.

use proptest::prelude::*;

use super::*;

#[test]
fn ordinary_text_of_any_script_stays_as_it_is() {
    for text in [
        "",
        "git log --oneline | head -5",
        "line one\nline two\n\n\tindented\n",
        "Grüße, señor: Ελληνικά, русский, עברית, العربية, हिन्दी, ไทย",
        "你好，世界 · 한국어 · 日本語",
        "🙂 🚀 ❤ €5 → ok",
        "e\u{301} Vie\u{302}\u{323}t",
        "a - b -- c --- d ================================",
    ] {
        assert_eq!(inert(text), text);
    }
}

#[test]
fn what_hides_or_moves_text_is_spelled_out() {
    for (text, shown) in [
        ("rm \u{202E}fdp.txt", "rm ⟨U+202E⟩fdp.txt"),
        ("a\u{2066}b\u{2069}", "a⟨U+2066⟩b⟨U+2069⟩"),
        ("\u{1b}[2J\u{1b}[31mhi", "⟨U+001B⟩[2J⟨U+001B⟩[31mhi"),
        ("a\rb\u{8}c\0", "a⟨U+000D⟩b⟨U+0008⟩c⟨U+0000⟩"),
        ("a\u{85}b\u{9b}31m", "a⟨U+0085⟩b⟨U+009B⟩31m"),
        ("pass\u{200B}word\u{FEFF}", "pass⟨U+200B⟩word⟨U+FEFF⟩"),
        ("a\u{E0041}\u{E007F}", "a⟨U+E0041⟩⟨U+E007F⟩"),
        ("❤\u{FE0F}", "❤⟨U+FE0F⟩"),
        ("rm\u{A0}-rf\u{3000}x\u{2800}", "rm⟨U+00A0⟩-rf⟨U+3000⟩x⟨U+2800⟩"),
        ("a\u{2028}b\u{2029}", "a⟨U+2028⟩b⟨U+2029⟩"),
        ("⟨U+202E⟩", "⟨U+27E8⟩U+202E⟩"),
    ] {
        assert_eq!(inert(text), shown);
        assert_eq!(inert_line(text), shown);
    }
}

#[test]
fn one_line_stays_one_line() {
    assert_eq!(inert_line("a\n\tb"), "a⟨U+000A⟩⟨U+0009⟩b");
    assert_eq!(inert_line(&"\n".repeat(5)), "⟨5 line ends⟩");
}

#[test]
fn padding_is_counted() {
    let run = |text: &str, count| text.repeat(count);
    for (text, shown) in [
        (run(" ", 32), run(" ", 32)),
        (run(" ", 33), "⟨33 spaces⟩".to_owned()),
        (run("\t", 8), run("\t", 8)),
        (run("\t", 9), "⟨9 tabs⟩".to_owned()),
        (run("\n", 4), run("\n", 4)),
        (run("\n", 5), "⟨5 line ends⟩\n".to_owned()),
        (run("a", 32), run("a", 32)),
        (run("a", 33), "⟨33 × a⟩".to_owned()),
        (run("\u{200B}", 40), "⟨40 × U+200B⟩".to_owned()),
        (format!("{}x", run(" \n", 5)), {
            let line = "⟨1 spaces⟩⟨1 line ends⟩\n";
            format!("{}x", line.repeat(5))
        }),
        (format!("a{}b", run(" ", 40)), "a⟨40 spaces⟩b".to_owned()),
    ] {
        assert_eq!(inert(&text), shown);
    }
}

#[test]
fn a_character_carries_four_marks_and_no_more() {
    let flood = format!("a{}", "\u{301}\u{300}".repeat(3));
    assert_eq!(inert(&flood), "a\u{301}\u{300}\u{301}\u{300}⟨U+0301⟩⟨U+0300⟩");
}

#[test]
fn a_mark_with_nothing_to_sit_on_is_spelled_out() {
    for (text, shown) in [
        ("\u{301}a", "⟨U+0301⟩a"),
        ("a \u{301}", "a ⟨U+0301⟩"),
        ("a\n\u{301}", "a\n⟨U+0301⟩"),
        ("\u{200B}\u{301}", "⟨U+200B⟩⟨U+0301⟩"),
        ("no\u{336}", "no⟨U+0336⟩"),
    ] {
        assert_eq!(inert(text), shown);
    }
}

#[test]
fn a_long_text_keeps_its_head_and_its_end() {
    let long = |middle: &str| format!("{}{middle}{} && rm -rf .", "ab".repeat(5_000), "cd".repeat(5_000));
    let shown = inert(&long("x"));
    assert!(shown.starts_with("abab") && shown.ends_with("cd && rm -rf ."), "{shown}");
    assert!(shown.contains("⟨12013 characters left out, sha256 "), "{shown}");
    assert!(shown.chars().count() < LONGEST + 100);
    assert_ne!(shown, inert(&long("y")), "what was left out still tells");
}

#[test]
fn a_cut_is_made_only_where_the_text_is_too_long() {
    assert_eq!(within("abcd", 4), "abcd");
    let cut = within("abcdef", 4);
    assert!(cut.starts_with("ab⟨2 characters left out") && cut.ends_with("⟩ef"), "{cut}");
    let cut = within("abcdee\u{301}f", 4);
    assert!(cut.ends_with("⟩⟨U+0301⟩f"), "{cut}");
}

/// What may not be shown: judged by the characters themselves, not by the function under test.
fn harmless(text: &str) -> bool {
    let mut marks = 0;
    let (mut last, mut same) = (None, 0);
    text.chars().all(|character| {
        marks = if is_combining_mark(character) { marks + 1 } else { 0 };
        same = if last == Some(character) { same + 1 } else { 1 };
        last = Some(character);
        let control = character.is_control() && !matches!(character, '\n' | '\t');
        let blank = character.is_whitespace() && !matches!(character, ' ' | '\n' | '\t');
        let hidden = matches!(character, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0000}'..='\u{E0FFF}');
        !control && !blank && !hidden && marks <= MARKS && same <= LONGEST_RUN
    })
}

fn nasty() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        "[a-c⟨⟩ \\n\\t]{0,4}",
        Just("\u{202E}".to_owned()),
        Just("\u{1b}[2J".to_owned()),
        Just("\u{301}".to_owned()),
        Just("⟨U+202E⟩".to_owned()),
        Just("⟨33 spaces⟩".to_owned()),
        (30..36_usize, "[ \\ta\\n\u{200B}]").prop_map(|(count, text)| text.repeat(count)),
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn nothing_that_hides_or_moves_text_is_left(text in nasty()) {
        prop_assert!(harmless(&inert(&text)), "{:?}", inert(&text));
        let line = inert_line(&text);
        prop_assert!(harmless(&line) && !line.contains(['\n', '\t']), "{line:?}");
    }

    #[test]
    fn two_texts_never_read_the_same(one in nasty(), two in nasty()) {
        prop_assert_eq!(one == two, inert(&one) == inert(&two));
        prop_assert_eq!(one == two, inert_line(&one) == inert_line(&two));
    }

    #[test]
    fn text_without_marks_is_inert_once_and_for_all(text in nasty()) {
        let shown = inert(&text);
        if !shown.contains(OPEN) {
            prop_assert_eq!(&shown, &text);
            prop_assert_eq!(inert(&shown), shown);
        }
    }
}
