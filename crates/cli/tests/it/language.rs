//! English and Simplified Chinese: the words change, codes and fields do not.

use crate::home::Home;

fn is_chinese(text: &str) -> bool {
    text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

#[test]
fn the_locale_chooses_the_words_and_never_the_code() {
    let home = Home::new();
    for (words, code) in [
        (["bogus"].as_slice(), "UNKNOWN_COMMAND"),
        (&["ask"], "ASK_INPUT_REQUIRED"),
        (&["ask", "--bogus", "hi"], "UNKNOWN_OPTION"),
        (&["ask", "--provider", "foo", "hi"], "UNSUPPORTED_PROVIDER"),
        (&["sessions", "show", "x"], "NOT_FOUND"),
        (&["runs", "list", "--limit", "0"], "INVALID_VALUE"),
    ] {
        let english = home.call(words).fails(code);
        assert!(!is_chinese(&english.message), "{english:?}");
        for (variable, value) in
            [("LANG", "zh_CN.UTF-8"), ("LC_ALL", "zh_CN.UTF-8"), ("TIDEGATE_LANG", "zh-CN")]
        {
            let chinese = home.call(words).env(variable, value).fails(code);
            assert!(is_chinese(&chinese.message), "{variable}: {chinese:?}");
        }
    }
}

#[test]
fn the_programs_own_variable_wins_over_the_locale() {
    let home = Home::new();
    let failed =
        home.call(&["bogus"]).env("LANG", "zh_CN.UTF-8").env("TIDEGATE_LANG", "en").fails("UNKNOWN_COMMAND");
    assert_eq!(failed.message, "Unknown command: bogus");
    let failed = home.call(&["bogus"]).env("LANG", "fr_FR.UTF-8").fails("UNKNOWN_COMMAND");
    assert_eq!(failed.message, "Unknown command: bogus", "what is not translated is English");
}

#[test]
fn the_configuration_may_name_the_language() {
    let home = Home::new();
    home.write_config("{ ui: { language: 'zh-CN' } }");
    assert!(is_chinese(&home.call(&["sessions", "list"]).ok().stdout));
    let english = home.call(&["sessions", "list"]).env("TIDEGATE_LANG", "en").ok().stdout;
    assert!(!is_chinese(&english), "{english}");
}

#[test]
fn help_and_lists_are_in_the_readers_language() {
    let home = Home::new();
    let chinese = |words: &[&str]| home.call(words).env("LANG", "zh_CN.UTF-8").ok().stdout;
    for words in
        [["--help"].as_slice(), &["ask", "--help"], &["sessions", "list"], &["runs", "list"], &["status"]]
    {
        assert!(is_chinese(&chinese(words)), "{words:?}");
    }
    home.ask("hello");
    for words in [["sessions", "list"].as_slice(), &["runs", "list"], &["config", "validate"], &["status"]] {
        assert!(is_chinese(&chinese(words)), "{words:?}: {}", chinese(words));
    }
}

#[test]
fn json_is_the_same_in_every_language() {
    let home = Home::new();
    home.ask("hello");
    for words in [["sessions", "list", "--json"], ["runs", "list", "--json"], ["status", "--json", "--json"]]
    {
        let chinese = home.call(&words).env("LANG", "zh_CN.UTF-8").ok().stdout;
        assert_eq!(chinese, home.call(&words).ok().stdout);
    }
}

#[test]
fn errors_of_the_home_and_the_database_are_translated_too() {
    let home = Home::new();
    home.ask("hello");
    std::fs::write(home.database(), [0x55; 8192]).unwrap();
    let failed = home.call(&["ask", "hi"]).env("LANG", "zh_CN.UTF-8").fails("STORAGE_DAMAGED");
    assert!(is_chinese(&failed.message), "the message itself, not only the hint: {failed:?}");
}
