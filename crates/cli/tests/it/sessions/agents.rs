//! `--agent`: a conversation of another agent is never meant, and an agent that is not there is an error.

use crate::home::Home;

/// A home with two agents, where only `main` has the conversation `work`.
fn two_agents() -> Home {
    let home = Home::new();
    home.write_config("{ agents: { list: [{ id: \"main\", default: true }, { id: \"helper\" }] } }\n");
    home.ask_in("work", "of main");
    home
}

/// What takes a conversation and an agent.
const COMMANDS: [&[&str]; 9] = [
    &["show", "work"],
    &["export", "work"],
    &["branches", "work"],
    &["rename", "work", "a", "title"],
    &["fork", "work"],
    &["edit", "work", "--at", "1", "else"],
    &["switch", "work", "x"],
    &["reset", "work"],
    &["delete", "work", "--yes"],
];

#[test]
fn what_is_done_to_one_agents_conversation_is_never_done_to_anothers() {
    let home = two_agents();
    let before = home.sessions();
    let id = before[0]["sessionId"].as_str().unwrap().to_owned();
    let key = before[0]["key"].as_str().unwrap().to_owned();
    for words in COMMANDS {
        for name in ["work", id.as_str(), key.as_str()] {
            let mut words = [&["sessions"], words].concat();
            words[2] = name;
            let failed = home.call(&[&words[..], &["--agent", "helper"]].concat()).fails("NOT_FOUND");
            assert!(
                failed.message.starts_with(&format!("agent helper has no session {name};")),
                "{failed:?}"
            );
        }
    }
    assert_eq!(home.sessions(), before);
    assert_eq!(home.call(&["runs", "list", "--agent", "helper"]).ok().stdout, "No runs.\n");
    home.call(&["usage", "--agent", "helper", "--session", "work"]).fails("NOT_FOUND");
}

#[test]
fn an_agent_that_is_not_there_is_an_error_that_names_those_that_are() {
    let home = two_agents();
    let before = home.sessions();
    let others: [&[&str]; 5] =
        [&["sessions", "list"], &["runs", "list"], &["stop"], &["stop", "--session", "work"], &["usage"]];
    let on_one = COMMANDS.map(|words| [&["sessions"], words].concat());
    for words in others.iter().map(|words| words.to_vec()).chain(on_one) {
        let failed = home.call(&[&words[..], &["--agent", "nope"]].concat()).fails("NOT_FOUND");
        assert_eq!(failed.message, "there is no agent nope; known: main, helper", "{words:?}");
    }
    assert_eq!(home.sessions(), before);
    let empty = Home::new();
    empty.call(&["sessions", "list", "--agent", "nope"]).fails("NOT_FOUND");
    empty.call(&["stop", "--agent", "nope"]).fails("NOT_FOUND");
}

#[test]
fn a_fork_of_one_agents_conversation_does_not_become_anothers() {
    let home = two_agents();
    home.call(&["ask", "--agent", "helper", "--session", "own", "of helper"]).ok();
    let fork = ["sessions", "fork", "own", "--agent", "helper"];
    home.call(&[&fork[..], &["--to", "work"]].concat()).ok();
    assert!(home.call(&["sessions", "show", "work"]).ok().stdout.contains("of main"));
    assert!(home.call(&["sessions", "show", "work", "--agent", "helper"]).ok().stdout.contains("of helper"));
    home.call(&fork).ok();
    assert!(home.call(&["sessions", "show", "own", "--agent", "helper"]).ok().stdout.contains("of helper"));
}

#[test]
fn an_agent_that_is_configured_no_longer_is_known_by_its_conversations() {
    let home = two_agents();
    home.call(&["ask", "--agent", "helper", "--session", "left", "of helper"]).ok();
    home.write_config("{}\n");
    assert!(home.call(&["sessions", "show", "left", "--agent", "helper"]).ok().stdout.contains("of helper"));
    assert!(home.call(&["sessions", "list", "--agent", "helper"]).ok().stdout.contains("helper/left"));
    let failed = home.call(&["sessions", "list", "--agent", "nope"]).fails("NOT_FOUND");
    assert!(failed.message.ends_with("known: main, helper"), "{failed:?}");
    assert!(home.call(&["sessions", "show", "helper/left"]).ok().stdout.contains("of helper"));
}
