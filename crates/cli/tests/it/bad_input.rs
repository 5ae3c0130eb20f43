//! What a caller may get wrong before anything runs: words, bytes and places.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::home::{Home, PROGRAM};
use crate::process::Call;

#[test]
fn an_unknown_option_is_refused_with_the_nearest_known_one() {
    let home = Home::new();
    for (words, option, meant) in [
        (["ask", "--sesion", "x", "hi"].as_slice(), "--sesion", "--session"),
        (&["sessions", "list", "--limt", "3"], "--limt", "--limit"),
        (&["status", "--jsn"], "--jsn", "--json"),
        (&["config", "set", "a", "b", "--bas-hash", "x"], "--bas-hash", "--base-hash"),
    ] {
        let failed = home.call(words).fails("UNKNOWN_OPTION");
        assert_eq!(failed.message, format!("Unknown option: {option}"));
        assert!(failed.stderr.contains(&format!("Did you mean {meant}?")), "{failed:?}");
        assert!(failed.stderr.contains("Usage: tidegate "), "{failed:?}");
    }
    for words in [
        ["sessions", "list", "-x"].as_slice(),
        &["--bogus"],
        &["--bogus", "ask", "hi"],
        &["status", "--no-json"],
    ] {
        home.call(words).fails("UNKNOWN_OPTION");
    }
    assert!(!home.root().exists(), "nothing was made");
}

#[test]
fn too_many_words_and_too_few_are_told_with_the_usage() {
    let home = Home::new();
    for (words, code) in [
        (["status", "now"].as_slice(), "INVALID_VALUE"),
        (&["sessions", "show"], "MISSING_VALUE"),
        (&["sessions", "show", "a", "b"], "INVALID_VALUE"),
        (&["config", "set", "a"], "MISSING_VALUE"),
        (&["config", "set", "a", "b", "c"], "INVALID_VALUE"),
        (&["runs", "show"], "MISSING_VALUE"),
    ] {
        let failed = home.call(words).fails(code);
        assert!(failed.stderr.contains("Usage: tidegate "), "{failed:?}");
    }
    for group in ["sessions", "runs", "config"] {
        let failed = home.call(&[group]).run();
        assert_eq!(failed.code, Some(1));
        assert!(failed.stderr.contains(&format!("{group}: ")), "the words it takes: {failed:?}");
    }
}

#[test]
fn a_home_that_is_a_file_is_called_unusable() {
    let home = Home::new();
    fs::write(home.root(), "I am a file").unwrap();
    let failed = home.call(&["ask", "hi"]).fails("HOME_UNUSABLE");
    assert!(failed.message.contains(home.root().to_str().unwrap()), "{failed:?}");
    assert!(failed.stderr.contains("--home"), "what to do about it: {failed:?}");
    for words in [["status"].as_slice(), &["sessions", "list"], &["config", "set", "gateway.port", "1000"]] {
        let done = home.call(words).run();
        assert!(!done.stderr.contains("INTERNAL"), "{done:?}");
    }
    assert_eq!(fs::read(home.root()).unwrap(), b"I am a file");
}

#[test]
fn a_home_below_a_file_is_called_unusable() {
    let home = Home::new();
    fs::write(home.root(), "I am a file").unwrap();
    let below = home.root().join("deeper");
    let failed = home.call(&["--home", below.to_str().unwrap(), "ask", "hi"]).fails("HOME_UNUSABLE");
    assert!(failed.message.contains("deeper"), "{failed:?}");
}

#[test]
fn a_database_that_is_a_folder_is_refused_in_words() {
    let home = Home::new();
    fs::create_dir_all(home.database()).unwrap();
    let done = home.call(&["ask", "hi"]).run();
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.starts_with("[STORAGE_") && done.stderr.contains("tidegate.db"), "{done:?}");
}

fn raw(home: &Home, words: &[&[u8]]) -> Call {
    let words: Vec<&OsStr> = words.iter().map(|word| OsStr::from_bytes(word)).collect();
    Call::new(Path::new(PROGRAM), &words).env("TIDEGATE_HOME", home.root()).env("HOME", home.around())
}

#[test]
fn an_argument_that_is_not_utf8_is_refused_and_not_mangled() {
    let home = Home::new();
    let around = home.around().as_os_str().as_bytes().to_vec();
    let odd_home = [around.as_slice(), b"/h\xff"].concat();
    for words in [
        [b"ask".as_slice(), b"caf\xe9"].as_slice(),
        &[b"ask", b"--session", b"caf\xe9", b"hi"],
        &[b"sessions", b"show", b"caf\xe9"],
        &[b"caf\xe9"],
    ] {
        let done = raw(&home, words).run();
        let failed = done.failed(1, "INVALID_VALUE");
        assert!(failed.message.contains("UTF-8"), "{failed:?}");
    }
    assert!(!home.root().exists(), "nothing was made");
    let done = raw(&home, &[b"--home", &odd_home, b"ask", b"hi"]).run();
    let made: Vec<_> = fs::read_dir(home.around()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!made.iter().any(|name| name == "h\u{fffd}"), "a folder of another name was made: {done:?}");
}

#[test]
fn a_home_in_a_variable_that_is_not_utf8_is_not_another_home() {
    let home = Home::new();
    let odd = [home.around().as_os_str().as_bytes(), b"/h\xff"].concat();
    let call = Call::new(Path::new(PROGRAM), &["ask", "hi"]);
    let done = call.env("TIDEGATE_HOME", OsStr::from_bytes(&odd)).env("HOME", home.around()).run();
    assert!(
        !home.around().join(".tidegate").exists(),
        "the variable was set, so the default home is wrong: {done:?}"
    );
}

#[test]
fn standard_input_that_is_not_utf8_is_refused_and_not_mangled() {
    let home = Home::new();
    let failed = home.call(&["ask", "--stdin"]).stdin(b"caf\xe9".to_vec()).fails("INVALID_VALUE");
    assert!(failed.message.contains("UTF-8"), "{failed:?}");
    assert!(!home.root().exists(), "nothing was made");
}
