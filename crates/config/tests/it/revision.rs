//! History: what was good is not lost, and a bad file is never silently defaults.

use tidegate_config::{Origin, StoreError};

use crate::home::Home;

const GOOD: &str = "{ gateway: { port: 7 } }";
const BAD: &str = "{ gateway: { prot: 8 } }";

fn activate(home: &Home) -> u64 {
    home.file.activate(&home.load().unwrap(), 42).unwrap().unwrap().number
}

#[test]
fn a_bad_file_after_a_good_one_leaves_the_good_one_in_force_and_says_so() {
    let home = Home::with(GOOD);
    activate(&home);
    home.write("config.json5", BAD);
    assert!(home.load().is_err());
    let loaded = home.file.load_or_last_good(&home.env).unwrap();
    assert_eq!(loaded.config.gateway.port, 7);
    let Origin::LastGood { revision, problems } = &loaded.origin else { panic!("{:?}", loaded.origin) };
    assert_eq!(*revision, 1);
    assert_eq!(problems[0].to_string(), r#"gateway.prot: unknown key, did you mean "gateway.port"?"#);
    assert_eq!(home.file.activate(&loaded, 43).unwrap().unwrap().number, 1);
    assert_eq!(home.text(), BAD);
}

#[test]
fn a_bad_file_without_a_good_one_before_it_is_refused() {
    let home = Home::with(BAD);
    assert_eq!(home.file.load_or_last_good(&home.env).unwrap_err().code(), "CONFIG_INVALID");
}

#[test]
fn an_emptied_file_is_bad_and_not_the_defaults() {
    let home = Home::with(GOOD);
    activate(&home);
    home.write("config.json5", "");
    let loaded = home.file.load_or_last_good(&home.env).unwrap();
    assert_eq!(loaded.config.gateway.port, 7);
    assert!(matches!(loaded.origin, Origin::LastGood { .. }));
}

#[test]
fn a_file_that_vanished_is_the_defaults_with_a_warning_and_is_no_revision() {
    let home = Home::with(GOOD);
    activate(&home);
    std::fs::remove_file(home.file.path()).unwrap();
    let loaded = home.load().unwrap();
    assert_eq!(loaded.origin, Origin::Missing);
    assert!(loaded.warnings[0].to_string().contains("revision 1 of it is kept in"), "{:?}", loaded.warnings);
    assert_eq!(home.file.activate(&loaded, 0).unwrap(), None);
}

#[test]
fn the_last_good_config_survives_a_broken_include() {
    let home = Home::with("{ $include: 'more.json5' }");
    home.write("more.json5", GOOD);
    activate(&home);
    home.write("more.json5", BAD);
    let loaded = home.file.load_or_last_good(&home.env).unwrap();
    assert_eq!(loaded.config.gateway.port, 7);
    home.write("more.json5", "{ gateway: { port: 9 } }");
    assert_eq!(activate(&home), 2, "the same text with other includes is another config");
}

#[test]
fn the_last_good_config_still_needs_its_variables() {
    let home = Home::with("{ ui: { language: '${LANGUAGE}' } }").env("LANGUAGE", "en");
    activate(&home);
    home.write("config.json5", BAD);
    assert!(home.file.load_or_last_good(&home.env).is_ok());
    let error = home.file.load_or_last_good(&tidegate_config::Env::default()).unwrap_err();
    assert!(error.to_string().contains("gateway.prot"), "{error}");
}

#[test]
fn activating_the_same_text_again_is_the_same_revision() {
    let home = Home::with(GOOD);
    assert_eq!((activate(&home), activate(&home)), (1, 1));
    let revisions = home.file.revisions().unwrap();
    assert_eq!((revisions.len(), revisions[0].saved_at_ms, revisions[0].good), (1, 42, true));
    assert_eq!(revisions[0].hash, home.load().unwrap().hash);
    assert_eq!(home.mode("revisions/00000001.json"), 0o600);
}

#[test]
fn restoring_brings_the_exact_text_back_and_keeps_the_one_it_replaces() {
    let home = Home::with(GOOD);
    activate(&home);
    home.write("config.json5", BAD);
    assert!(matches!(home.file.restore(1, Some("0000"), 50), Err(StoreError::Conflict)));
    let restored = home.file.restore(1, None, 50).unwrap();
    assert_eq!(home.text(), GOOD);
    assert_eq!((restored.number, restored.good), (3, true));
    home.file.restore(2, None, 51).unwrap();
    assert_eq!(home.text(), BAD);
    assert!(matches!(home.file.restore(99, None, 52), Err(StoreError::NoRevision { number: 99 })));
    assert_eq!(home.file.load_or_last_good(&home.env).unwrap().config.gateway.port, 7);
}

#[test]
fn every_edit_is_a_revision_and_so_is_what_was_there_before_the_first() {
    let home = Home::with(GOOD);
    home.set("gateway.port", 8).unwrap();
    home.set("gateway.port", 9).unwrap();
    home.set("gateway.port", 9).unwrap();
    assert_eq!(home.file.revisions().unwrap().iter().map(|r| r.number).collect::<Vec<_>>(), [1, 2, 3]);
    home.file.restore(1, None, 0).unwrap();
    assert_eq!(home.text(), GOOD);
}
