//! What people do to conversations: titles, settings, searching, and when one begins anew.

use tidegate_protocol::{Entry, Message, Place, SessionKey, SessionSettings, ThinkingLevel, Verbose};
use tidegate_storage::{Accept, Finish, Lease, NewEntry, Search, SessionChoice, SessionFilter, StoreError};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{audit_of, claim, converse, enlist, log, queue, start};

on_both_backends! {
    a_conversation_is_called_after_its_first_message,
    a_title_that_somebody_gave_stays,
    a_title_of_no_log_is_refused,
    settings_are_those_of_the_key_and_outlive_its_logs,
    settings_of_another_tenant_cannot_be_chosen,
    words_are_found_whatever_their_case_and_script,
    the_newest_lines_are_found_first_and_not_more_than_wanted,
    summaries_are_found_and_what_is_around_the_text_is_not,
    a_tenant_finds_only_its_own,
    an_agent_finds_only_its_own_when_it_is_named,
    a_stale_conversation_is_not_gone_on_with,
    the_second_run_after_a_stale_log_goes_on_with_the_first_ones,
    a_failed_fresh_start_leaves_the_next_one_to_begin_anew,
    a_conversation_that_is_closed_is_followed_by_a_fresh_one,
    a_key_for_a_piece_of_work_is_one_like_any_other,
}

/// A conversation of one turn with these words.
async fn say(store: &ScratchStore, make: &Requests, key: &SessionKey, text: &str) -> Lease {
    let lease = start(store, make.owner().unwrap(), make.accept(key)).await;
    let entries = vec![make.user(text), make.assistant("well")];
    store.finish(&lease, Finish { entries, ..make.completed() }).await.unwrap();
    lease
}

async fn title(store: &ScratchStore, key: &SessionKey) -> Option<String> {
    store.session(key).await.unwrap().unwrap().title
}

async fn a_conversation_is_called_after_its_first_message(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let key = make.key("work");
    say(store, &make, &key, "  \n look   at nul \0 and 你好\nmore").await;
    assert_eq!(title(store, &key).await.as_deref(), Some("look at nul \0 and 你好"));
    say(store, &make, &key, "something else").await;
    assert_eq!(title(store, &key).await.as_deref(), Some("look at nul \0 and 你好"));
    // A log that does not begin with a person's words has no title.
    let other = make.key("other");
    let lease = start(store, make.owner().unwrap(), make.accept(&other)).await;
    let entries: Vec<NewEntry> = vec![make.assistant("hello")];
    store.finish(&lease, Finish { entries, ..make.completed() }).await.unwrap();
    assert_eq!(title(store, &other).await, None);
}

async fn a_title_that_somebody_gave_stays(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let key = make.key("work");
    let lease = say(store, &make, &key, "first").await;
    let before = store.session(&key).await.unwrap().unwrap();
    assert!(store.set_title(&make.principal(), lease.session, Some("mine \0"), make.now()).await.unwrap());
    let after = store.session(&key).await.unwrap().unwrap();
    assert_eq!(after.title.as_deref(), Some("mine \0"));
    assert_eq!(after.updated_at, before.updated_at, "naming is not using");
    let audit = audit_of(store, &make, &lease.session.to_string()).await;
    assert_eq!(audit[0].action, "session.title");
    say(store, &make, &key, "second").await;
    assert_eq!(title(store, &key).await.as_deref(), Some("mine \0"));
    assert!(store.set_title(&make.principal(), lease.session, None, make.now()).await.unwrap());
    say(store, &make, &key, "third").await;
    assert_eq!(title(store, &key).await, None);
}

async fn a_title_of_no_log_is_refused(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let lease = say(store, &make, &make.key("work"), "first").await;
    let before = store.snapshot(make.tenant()).await;
    let foreign = Requests::new("elsewhere", 1);
    for (who, session) in [(&make, make.id()), (&foreign, lease.session)] {
        assert!(!store.set_title(&who.principal(), session, Some("mine"), make.now()).await.unwrap());
    }
    before.assert_same(&store.snapshot(make.tenant()).await);
}

async fn settings_are_those_of_the_key_and_outlive_its_logs(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    assert_eq!(store.session_settings(&key).await.unwrap(), SessionSettings::default());
    let chosen = SessionSettings {
        model: Some("offline/\0".to_owned()),
        thinking: Some(ThinkingLevel::High),
        verbose: Some(Verbose::Full),
    };
    store.set_session_settings(&make.principal(), &key, chosen.clone(), make.now()).await.unwrap();
    assert_eq!(store.session_settings(&key).await.unwrap(), chosen);
    assert_eq!(store.status(make.tenant()).await.unwrap().sessions, 0, "there is no conversation yet");
    let first = converse(store, &make, &key, owner).await;
    let fresh = Accept { session: SessionChoice::Fresh, ..make.accept(&key) };
    let lease = start(store, owner, fresh).await;
    store.finish(&lease, make.completed()).await.unwrap();
    assert_ne!(lease.session, first.session);
    let all = SessionFilter { all: true, limit: ALL, ..SessionFilter::default() };
    for row in store.sessions(make.tenant(), all).await.unwrap() {
        assert_eq!(row.settings, chosen);
    }
    let other = SessionSettings { model: None, ..chosen };
    store.set_session_settings(&make.principal(), &key, other.clone(), make.now()).await.unwrap();
    assert_eq!(store.session_settings(&key).await.unwrap(), other);
    store.delete_session(&make.principal(), &key, make.now()).await.unwrap();
    assert_eq!(store.session_settings(&key).await.unwrap(), SessionSettings::default());
}

async fn settings_of_another_tenant_cannot_be_chosen(store: &ScratchStore) {
    let (make, foreign) = (Requests::new("local", 1), Requests::new("elsewhere", 1));
    let settings = SessionSettings { model: Some("theirs".to_owned()), ..SessionSettings::default() };
    let refused =
        store.set_session_settings(&foreign.principal(), &make.key("work"), settings, make.now()).await;
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
    assert_eq!(store.session_settings(&make.key("work")).await.unwrap(), SessionSettings::default());
}

async fn find(store: &ScratchStore, make: &Requests, words: &str) -> Vec<Entry> {
    let search = Search { words: words.to_owned(), session: None, agent: None, limit: ALL };
    store.search(make.tenant(), search).await.unwrap()
}

async fn words_are_found_whatever_their_case_and_script(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let text = "The \"Quick\" C:\\fox\nÉCOLE 你好，世界 100% a_b nul \0 tab\t/ end";
    let lease = say(store, &make, &make.key("work"), text).await;
    let line = log(store, &lease).await[0].clone();
    for words in [
        "quick",
        "the \"QUICK\"",
        "c:\\FOX",
        "\\",
        "\"",
        "fox\nécole",
        "École",
        "你好",
        "，世界",
        "100%",
        "A_B",
        "nul \0",
        "tab\t/",
        "\t",
        text,
    ] {
        assert_eq!(find(store, &make, words).await, std::slice::from_ref(&line), "{words:?}");
    }
    for words in ["quack", "fox école", "你们", "1000%", "axb", "c:\\\\fox", "\\n", "\\u0000", "%"] {
        let found = find(store, &make, words).await;
        assert_eq!(found.is_empty(), words != "%", "{words:?}: {found:?}");
    }
}

async fn the_newest_lines_are_found_first_and_not_more_than_wanted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let mut said = Vec::new();
    for number in 0..5 {
        let key = make.key(["one", "two"][number % 2]);
        let lease = say(store, &make, &key, &format!("needle {number}")).await;
        said.push(log(store, &lease).await.into_iter().rev().nth(1).unwrap());
    }
    said.reverse();
    assert_eq!(find(store, &make, "needle").await, said);
    for limit in 0..=5_u32 {
        let search = Search { words: "Needle".to_owned(), session: None, agent: None, limit };
        assert_eq!(store.search(make.tenant(), search).await.unwrap(), said[..limit as usize]);
        let search =
            Search { words: "Needle".to_owned(), session: Some(said[0].session_id), agent: None, limit };
        let found = store.search(make.tenant(), search).await.unwrap();
        let expected: Vec<&Entry> =
            said.iter().filter(|line| line.session_id == said[0].session_id).take(limit as usize).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    }
}

async fn summaries_are_found_and_what_is_around_the_text_is_not(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    converse(store, &make, &key, owner).await;
    let lease = start(store, owner, make.accept(&key)).await;
    let mut compaction = make.compaction(2);
    compaction.compaction.summary.push_str(", of Whales");
    store.compact(&lease, compaction.clone()).await.unwrap();
    let found = find(store, &make, "whales").await;
    assert_eq!(found.iter().map(|entry| entry.id).collect::<Vec<_>>(), [compaction.id]);
    // Names of fields, of models and of files are no words of the conversation.
    for words in ["timestamp", "stopReason", "offline", "notes.txt"] {
        assert_eq!(find(store, &make, words).await, [], "{words}");
    }
}

async fn a_tenant_finds_only_its_own(store: &ScratchStore) {
    let (make, foreign) = (Requests::new("local", 1), Requests::new("elsewhere", 2));
    enlist(store, &make).await;
    enlist(store, &foreign).await;
    let lease = say(store, &make, &make.key("work"), "secret").await;
    say(store, &foreign, &foreign.key("work"), "public").await;
    assert_eq!(find(store, &foreign, "secret").await, []);
    let search = Search { words: "secret".to_owned(), session: Some(lease.session), agent: None, limit: ALL };
    assert_eq!(store.search(foreign.tenant(), search).await.unwrap(), []);
}

async fn an_agent_finds_only_its_own_when_it_is_named(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    enlist(store, &make).await;
    let mut helper = make.key("work");
    helper.scope.agent = "helper".parse().unwrap();
    let mine = say(store, &make, &make.key("work"), "a needle of mine").await;
    let theirs = say(store, &make, &helper, "a needle of theirs").await;
    let found = async |agent: Option<&str>, session| {
        let agent = agent.map(|agent| agent.parse().unwrap());
        let search = Search { words: "NEEDLE".to_owned(), session, agent, limit: ALL };
        let lines = store.search(make.tenant(), search).await.unwrap();
        lines.iter().map(|line| line.session_id).collect::<Vec<_>>()
    };
    assert_eq!(found(None, None).await, [theirs.session, mine.session]);
    assert_eq!(found(Some("helper"), None).await, [theirs.session]);
    assert_eq!(found(Some(make.scope().agent.as_str()), None).await, [mine.session]);
    assert_eq!(found(Some("nobody"), None).await, []);
    assert_eq!(found(Some("helper"), Some(mine.session)).await, [mine.session]);
}

/// A request that goes on with the current log only if it was written to since then.
fn since(make: &Requests, key: &SessionKey, time: i64) -> Accept {
    Accept { session: SessionChoice::Since(time), ..make.accept_from_channel(key) }
}

async fn a_stale_conversation_is_not_gone_on_with(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = converse(store, &make, &key, owner).await;
    let written = store.session(&key).await.unwrap().unwrap().updated_at;
    let same = start(store, owner, since(&make, &key, written)).await;
    assert_eq!(same.session, first.session);
    store.finish(&same, make.completed()).await.unwrap();
    let written = store.session(&key).await.unwrap().unwrap().updated_at;
    // Decided when it is claimed, also after it waited.
    let accept = since(&make, &key, written + 1);
    queue(store, accept.clone()).await;
    let fresh = claim(store, &make, &key, owner).await;
    assert_eq!(fresh.session, accept.new_session.id);
    store.finish(&fresh, make.completed()).await.unwrap();
    assert_eq!(store.session(&key).await.unwrap().unwrap().id, fresh.session);
    // A key without a log begins one, whatever the time.
    let other = start(store, owner, since(&make, &make.key("other"), i64::MIN)).await;
    store.finish(&other, make.completed()).await.unwrap();
}

async fn the_second_run_after_a_stale_log_goes_on_with_the_first_ones(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let old = converse(store, &make, &key, owner).await;
    let reset = make.now();
    queue(store, since(&make, &key, reset)).await;
    queue(store, since(&make, &key, reset)).await;
    let first = claim(store, &make, &key, owner).await;
    assert_ne!(first.session, old.session);
    store.finish(&first, make.completed()).await.unwrap();
    let second = claim(store, &make, &key, owner).await;
    assert_eq!(second.session, first.session);
    store.finish(&second, make.completed()).await.unwrap();
    assert_eq!(log(store, &second).await.len(), 4);
}

async fn a_failed_fresh_start_leaves_the_next_one_to_begin_anew(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let old = converse(store, &make, &key, owner).await;
    let reset = make.now();
    let failed = start(store, owner, since(&make, &key, reset)).await;
    store.finish(&failed, Finish { entries: vec![make.user("lost")], ..make.failed() }).await.unwrap();
    assert_eq!(store.session(&key).await.unwrap().unwrap().id, old.session);
    let next = start(store, owner, since(&make, &key, reset)).await;
    assert!(next.session != old.session && next.session != failed.session);
}

async fn a_conversation_that_is_closed_is_followed_by_a_fresh_one(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let old = converse(store, &make, &key, owner).await;
    let before = store.session(&key).await.unwrap().unwrap();
    let closing = start(store, owner, make.accept(&key)).await;
    let waiting = queue(store, make.accept(&key)).await;
    let close = Finish { entries: Vec::new(), closes_session: true, ..make.completed() };
    let finished = store.finish(&closing, close).await.unwrap();
    assert!(finished.more);
    assert_eq!(store.session(&key).await.unwrap(), None);
    let row = store.session_by_name(make.tenant(), &old.session.to_string()).await.unwrap().unwrap();
    assert_eq!((row.current, row.head_seq), (false, before.head_seq));
    let next = claim(store, &make, &key, owner).await;
    assert_eq!(next.run, waiting);
    assert_ne!(next.session, old.session);
    store.finish(&next, make.completed()).await.unwrap();
    assert_eq!(store.session(&key).await.unwrap().unwrap().id, next.session);
    // Where there is none, closing changes nothing.
    let other = start(store, owner, make.accept(&make.key("other"))).await;
    let close = Finish { entries: Vec::new(), closes_session: true, ..make.completed() };
    store.finish(&other, close).await.unwrap();
    assert_eq!(store.session(&make.key("other")).await.unwrap(), None);
}

async fn a_key_for_a_piece_of_work_is_one_like_any_other(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = SessionKey { place: Place::Sub { id: "a:b %".to_owned() }, ..make.key("work") };
    let lease = converse(store, &make, &key, owner).await;
    let row = store.session(&key).await.unwrap().unwrap();
    assert_eq!((row.key, row.id), (key, lease.session));
    assert!(
        log(store, &lease).await[0].body.message().is_some_and(|said| matches!(said, Message::User { .. }))
    );
}
