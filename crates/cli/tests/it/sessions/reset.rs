//! A conversation that was begun anew, and has no message yet, is found by its name all the same.

use serde_json::json;

use crate::home::Home;
use crate::log::context_of;

/// A home whose conversation `br` was begun anew; the id of the old log.
fn begun_anew() -> (Home, String) {
    let home = Home::new();
    let id = home.ask_in("br", "first words")["sessionId"].as_str().unwrap().to_owned();
    home.call(&["sessions", "reset", "br"]).ok();
    (home, id)
}

#[test]
fn a_conversation_that_was_begun_anew_is_shown_exported_and_begun_anew_again() {
    let (home, id) = begun_anew();
    assert!(home.call(&["sessions", "show", "br"]).ok().stdout.contains("first words"));
    assert!(home.call(&["sessions", "export", "br"]).ok().stdout.contains("first words"));
    let branches = home.call(&["sessions", "branches", "br", "--json"]).json();
    assert_eq!(branches["branches"][0]["sessionId"], json!(id));
    assert_eq!(branches["branches"][0]["current"], false);
    home.call(&["sessions", "reset", "br"]).ok();
    assert_eq!(context_of(home.ask_in("br", "anew")["result"].as_str().unwrap()), 1);
}

#[test]
fn a_reset_can_be_taken_back() {
    let (home, id) = begun_anew();
    let said = home.call(&["sessions", "switch", "br", &id]).ok().stdout;
    assert!(said.starts_with(&format!("br goes on where {id} ended, in a copy: ")), "{said}");
    assert_eq!(context_of(home.ask_in("br", "next")["result"].as_str().unwrap()), 3);
}

#[test]
fn a_conversation_that_was_begun_anew_can_be_deleted_by_its_name() {
    let (home, id) = begun_anew();
    let failed = home.call(&["sessions", "delete", &id, "--yes"]).fails("INVALID_VALUE");
    assert!(failed.message.contains("sessions delete br"), "{failed:?}");
    assert_eq!(home.call(&["sessions", "delete", "br", "--yes"]).ok().stdout, "deleted session br\n");
    home.call(&["sessions", "branches", "br"]).fails("NOT_FOUND");
    let found = home.call(&["sessions", "search", "first words"]).ok().stdout;
    assert!(found.starts_with("Nothing found"), "{found}");
}

#[test]
fn deleting_says_how_many_earlier_conversations_went_with_it() {
    let (home, _) = begun_anew();
    home.ask_in("br", "second");
    home.call(&["ask", "--session", "br", "--new-session", "third"]).ok();
    let said = home.call(&["sessions", "delete", "br", "--yes"]).ok().stdout;
    assert_eq!(said, "deleted session br and its 2 earlier conversation(s)\n");
}

#[test]
fn switching_again_makes_no_second_copy_and_the_list_shows_no_twins() {
    let home = Home::new();
    let first = home.ask_in("br", "one")["sessionId"].as_str().unwrap().to_owned();
    let second = home.call(&["ask", "--session", "br", "--new-session", "two"]).json()["sessionId"]
        .as_str()
        .unwrap()
        .to_owned();
    let switch = |id: &str| home.call(&["sessions", "switch", "br", id, "--json"]).json();
    let is_there = home.call(&["sessions", "switch", "br", &second]).ok().stdout;
    assert!(is_there.starts_with("br is there already"), "{is_there}");
    let copy = switch(&first);
    assert_eq!((&copy["switchedTo"], &copy["copied"]), (&json!(first), &json!(true)));
    for id in [&first, copy["sessionId"].as_str().unwrap()] {
        let again = switch(id);
        assert_eq!((&again["sessionId"], &again["copied"]), (&copy["sessionId"], &json!(false)));
    }
    for id in [&second, &first, &second] {
        switch(id);
    }
    let branches = home.call(&["sessions", "branches", "br", "--json"]).json();
    let shown = branches["branches"].as_array().unwrap();
    assert_eq!(shown.len(), 3, "both, and the copy that is in use: {branches}");
    assert_eq!(shown.iter().filter(|row| row["current"] == true).count(), 1);
    let failed = home.call(&["sessions", "switch", "br", "nope"]).fails("NOT_FOUND");
    assert_eq!(failed.message, "br has no branch nope; see: tidegate sessions branches br");
}
