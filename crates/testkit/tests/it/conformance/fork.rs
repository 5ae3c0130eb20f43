//! Forks: a log that has everything of another one up to a line, without a copy of it.

use serde_json::json;
use tidegate_protocol::{Entry, EntryBody, Message, SessionId, SessionKey};
use tidegate_storage::{
    Context, ContextLimits, Forked, Lease, NewSession, Search, SessionFilter, StoreError,
};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{audit_of, converse, enlist, everything, log, queue, start};

on_both_backends! {
    a_fork_has_the_lines_up_to_its_point_and_goes_on_by_itself,
    a_fork_becomes_the_current_log_of_its_key,
    a_fork_for_another_key_leaves_the_first_where_it_was,
    a_fork_of_a_fork_reads_through_all_of_them,
    a_fork_of_nothing_begins_anew,
    a_fork_has_the_summary_that_was_there_at_its_point,
    a_fork_is_refused_while_a_run_has_not_ended,
    a_line_that_does_not_exist_cannot_be_forked_from,
    the_context_of_a_fork_is_limited_like_any_other,
    a_fork_reads_whole_after_the_key_it_came_from_is_deleted,
    lines_go_with_the_last_key_that_shares_them,
    a_forgotten_session_leaves_what_a_fork_shares,
    the_transcript_of_a_fork_begins_with_its_own_lines,
    the_lines_of_a_fork_are_read_page_by_page,
}

const WHOLE: ContextLimits = ContextLimits { entries: ALL, ..ContextLimits::NONE };

async fn entries(store: &ScratchStore, make: &Requests, session: SessionId) -> Vec<Entry> {
    store.entries(make.tenant(), session, 0, ALL).await.unwrap()
}

async fn fork(
    store: &ScratchStore,
    make: &Requests,
    source: SessionId,
    after_seq: i64,
    key: &SessionKey,
) -> SessionId {
    store.fork(&make.principal(), make.fork(source, after_seq, key)).await.unwrap().session
}

fn assert_chained(lines: &[Entry]) {
    let mut parent = None;
    for (seq, line) in (1..).zip(lines) {
        assert_eq!((line.seq, line.parent_id), (seq, parent));
        parent = Some(line.id);
    }
}

async fn context(store: &ScratchStore, lease: &Lease) -> Context {
    store.context(lease, WHOLE).await.unwrap()
}

async fn a_fork_has_the_lines_up_to_its_point_and_goes_on_by_itself(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = converse(store, &make, &key, owner).await;
    converse(store, &make, &key, owner).await;
    let whole = log(store, &first).await;
    let forked = fork(store, &make, first.session, 3, &key).await;
    assert_eq!(entries(store, &make, forked).await, whole[..3]);
    let next = converse(store, &make, &key, owner).await;
    assert_eq!(next.session, forked);
    let lines = entries(store, &make, forked).await;
    assert_eq!((lines.len(), &lines[..3]), (5, &whole[..3]));
    assert_chained(&lines);
    // One row for the fork, and its own lines; the source is as it was.
    assert_eq!(store.rows("entries", "true").await.len(), 6);
    assert_eq!(log(store, &first).await, whole);
    let row = store.session(&key).await.unwrap().unwrap();
    assert_eq!((row.parent, row.head_seq), (Some((first.session, 3)), 5));
}

async fn a_fork_becomes_the_current_log_of_its_key(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = converse(store, &make, &key, owner).await;
    let mut new = make.fork(first.session, 1, &key);
    new.new_session = NewSession { id: make.id(), alias: Some("lc-fork".to_owned()) };
    let forked = store.fork(&make.principal(), new.clone()).await.unwrap();
    assert_eq!(forked, Forked { session: new.new_session.id, before: Some(first.session) });
    let row = store.session(&key).await.unwrap().unwrap();
    assert_eq!((row.id, row.alias.as_deref(), row.current), (forked.session, Some("lc-fork"), true));
    // The beginning is the same, and so is what it is called.
    assert_eq!((row.title.as_deref(), row.created_at), (Some("question"), new.now));
    let before = store.session_by_name(make.tenant(), &first.session.to_string()).await.unwrap().unwrap();
    assert!(!before.current);
    let audit = audit_of(store, &make, &key.to_string()).await;
    assert_eq!(audit[0].action, "session.fork");
    assert_eq!(
        audit[0].metadata,
        json!({
            "sessionId": forked.session.to_string(), "source": first.session.to_string(), "afterSeq": 1,
        })
    );
}

async fn a_fork_for_another_key_leaves_the_first_where_it_was(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (key, other) = (make.key("work"), make.key("other"));
    let first = converse(store, &make, &key, owner).await;
    let forked = store.fork(&make.principal(), make.fork(first.session, 2, &other)).await.unwrap();
    assert_eq!(forked.before, None);
    assert_eq!(store.session(&key).await.unwrap().unwrap().id, first.session);
    assert_eq!(store.session(&other).await.unwrap().unwrap().id, forked.session);
    // The new key has a queue like any other.
    let lease = start(store, owner, make.accept(&other)).await;
    assert_eq!((lease.session, lease.attempt), (forked.session, 1));
    queue(store, make.accept(&other)).await;
    assert!(store.finish(&lease, make.completed()).await.unwrap().more);
    let foreign = Requests::new("elsewhere", 1);
    let error = store.fork(&foreign.principal(), make.fork(first.session, 2, &other)).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
    let stolen = foreign.fork(first.session, 2, &foreign.key("theirs"));
    let error = store.fork(&foreign.principal(), stolen).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
}

async fn a_fork_of_a_fork_reads_through_all_of_them(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = converse(store, &make, &key, owner).await;
    converse(store, &make, &key, owner).await;
    let second = fork(store, &make, first.session, 3, &key).await;
    converse(store, &make, &key, owner).await;
    let third = fork(store, &make, second, 4, &key).await;
    let lease = start(store, owner, make.accept(&key)).await;
    let [root, middle] = [entries(store, &make, first.session).await, entries(store, &make, second).await];
    let lines = entries(store, &make, third).await;
    assert_eq!((&lines[..3], &lines[3..]), (&root[..3], &middle[3..4]));
    store.finish(&lease, make.completed()).await.unwrap();
    assert_chained(&entries(store, &make, third).await);
    assert_eq!(context(store, &lease).await.entries, entries(store, &make, third).await);
    // From a line that a fork only shares, the one that has it is the parent.
    let fourth = fork(store, &make, third, 2, &key).await;
    let row = store.session(&key).await.unwrap().unwrap();
    assert_eq!(row.parent, Some((first.session, 2)));
    assert_eq!(entries(store, &make, fourth).await, root[..2]);
}

async fn a_fork_of_nothing_begins_anew(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = converse(store, &make, &key, owner).await;
    let forked = fork(store, &make, first.session, 0, &key).await;
    assert_eq!(entries(store, &make, forked).await, []);
    assert_eq!(store.session(&key).await.unwrap().unwrap().title, None);
    let lease = start(store, owner, make.accept(&key)).await;
    store.step(&lease, make.intent(vec![make.user("anew")])).await.unwrap();
    assert_chained(&entries(store, &make, forked).await);
    assert_eq!(store.session(&key).await.unwrap().unwrap().title.as_deref(), Some("anew"));
}

async fn a_fork_has_the_summary_that_was_there_at_its_point(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    converse(store, &make, &key, owner).await;
    converse(store, &make, &key, owner).await;
    let lease = start(store, owner, make.accept(&key)).await;
    // Lines 1 to 4, summaries at 5 and 8, lines 6 and 7.
    store.compact(&lease, make.compaction(3)).await.unwrap();
    store.finish(&lease, make.completed()).await.unwrap();
    let lease = start(store, owner, make.accept(&key)).await;
    store.compact(&lease, make.compaction(7)).await.unwrap();
    store.finish(&lease, make.completed()).await.unwrap();
    for (after, summary, shown, compactions) in [
        (4, None, vec![1, 2, 3, 4], 0),
        (5, Some(5), vec![3, 4], 1),
        (7, Some(5), vec![3, 4, 6, 7], 1),
        (8, Some(8), vec![7], 2),
        (9, Some(8), vec![7, 9], 2),
    ] {
        let other = make.key(&format!("after {after}"));
        fork(store, &make, lease.session, after, &other).await;
        let run = start(store, owner, make.accept(&other)).await;
        let found = context(store, &run).await;
        assert_eq!(found.summary.map(|entry| entry.seq), summary, "after {after}");
        assert_eq!(found.entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), shown, "after {after}");
        assert_eq!((found.compactions, found.flushed), (compactions, false), "after {after}");
        // It is summed up by itself from here on.
        let seq = store.compact(&run, make.compaction(after)).await.unwrap();
        let found = context(store, &run).await;
        assert_eq!((seq, found.summary.map(|entry| entry.seq)), (after + 1, Some(after + 1)));
        assert_eq!(found.compactions, compactions + 1);
    }
}

async fn a_fork_is_refused_while_a_run_has_not_ended(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = converse(store, &make, &key, owner).await;
    queue(store, make.accept(&key)).await;
    let before = store.snapshot(make.tenant()).await;
    let error = store.fork(&make.principal(), make.fork(first.session, 1, &key)).await.unwrap_err();
    assert_eq!(error, StoreError::SessionBusy);
    before.assert_same(&store.snapshot(make.tenant()).await);
    // Another key may fork from it meanwhile.
    fork(store, &make, first.session, 1, &make.key("other")).await;
}

async fn a_line_that_does_not_exist_cannot_be_forked_from(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = converse(store, &make, &key, owner).await;
    let before = store.snapshot(make.tenant()).await;
    for (source, after) in [(first.session, 3), (first.session, -1), (make.id(), 0), (make.id(), 1)] {
        let error = store.fork(&make.principal(), make.fork(source, after, &key)).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
        before.assert_same(&store.snapshot(make.tenant()).await);
    }
}

async fn the_context_of_a_fork_is_limited_like_any_other(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = converse(store, &make, &key, owner).await;
    fork(store, &make, first.session, 2, &key).await;
    converse(store, &make, &key, owner).await;
    let lease = start(store, owner, make.accept(&key)).await;
    let all = context(store, &lease).await.entries;
    assert_eq!(all.len(), 4);
    for entries in 1..=5_u32 {
        let found = store.context(&lease, ContextLimits { entries, ..ContextLimits::NONE }).await.unwrap();
        let from = all.len().saturating_sub(entries as usize);
        assert_eq!((found.entries, found.cut), (all[from..].to_vec(), from > 0), "{entries} lines");
    }
    let size = |entry: &Entry| u64::try_from(entry.body.to_stored().unwrap().1.len()).unwrap();
    let bytes = all[1..].iter().map(size).sum();
    for (bytes, from) in [(bytes, 1), (bytes - 1, 2)] {
        let found = store
            .context(&lease, ContextLimits { entries: ALL, bytes, ..ContextLimits::NONE })
            .await
            .unwrap();
        assert_eq!((found.entries, found.cut), (all[from..].to_vec(), true));
    }
}

async fn a_fork_reads_whole_after_the_key_it_came_from_is_deleted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let (key, other) = (make.key("work"), make.key("other"));
    let first = converse(store, &make, &key, owner).await;
    let second = fork(store, &make, first.session, 1, &key).await;
    converse(store, &make, &key, owner).await;
    let forked = fork(store, &make, second, 2, &other).await;
    let lease = converse(store, &make, &other, owner).await;
    let lines = entries(store, &make, forked).await;
    let mut names = store.delete_session(&make.principal(), &key, make.now()).await.unwrap();
    names.sort();
    let mut expected = [first.session.to_string(), second.to_string()];
    expected.sort();
    assert_eq!(names, expected);
    assert_eq!(entries(store, &make, forked).await, lines);
    assert_eq!(context(store, &lease).await.entries, lines);
    // Only what is shared is left, and nobody is shown it by itself.
    assert_eq!(store.rows("entries", "true").await.len(), 4);
    let all = SessionFilter { all: true, limit: ALL, ..SessionFilter::default() };
    let listed = store.sessions(make.tenant(), all).await.unwrap();
    assert_eq!(listed.iter().map(|row| row.id).collect::<Vec<_>>(), [forked]);
    assert_eq!(store.session_by_name(make.tenant(), &first.session.to_string()).await.unwrap(), None);
    assert!(!store.set_title(&make.principal(), first.session, Some("mine"), make.now()).await.unwrap());
    assert!(
        store.mirror_backlog(make.tenant(), ALL).await.unwrap().iter().all(|task| task.session == forked)
    );
    // The key begins again by itself.
    let again = converse(store, &make, &key, owner).await;
    assert_eq!(log(store, &again).await.len(), 2);
    assert_eq!(converse(store, &make, &other, owner).await.session, forked);
}

async fn lines_go_with_the_last_key_that_shares_them(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let keys = ["work", "one", "two"].map(|name| make.key(name));
    let first = converse(store, &make, &keys[0], owner).await;
    let one = fork(store, &make, first.session, 2, &keys[1]).await;
    let two = fork(store, &make, first.session, 1, &keys[2]).await;
    let delete =
        async |key: &SessionKey| store.delete_session(&make.principal(), key, make.now()).await.unwrap();
    assert_eq!(delete(&keys[0]).await, [first.session.to_string()]);
    assert_eq!((entries(store, &make, one).await.len(), entries(store, &make, two).await.len()), (2, 1));
    assert_eq!(delete(&keys[1]).await, [one.to_string()]);
    assert_eq!(store.rows("entries", "true").await.len(), 1);
    assert_eq!(entries(store, &make, two).await.len(), 1);
    assert_eq!(delete(&keys[2]).await, [two.to_string()]);
    for table in ["entries", "sessions", "session_keys"] {
        assert_eq!(store.rows(table, "true").await.len(), 0, "{table}");
    }
}

async fn a_forgotten_session_leaves_what_a_fork_shares(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let passing = tidegate_storage::Accept { ephemeral: true, ..make.accept(&make.key("passing")) };
    let lease = start(store, owner, passing).await;
    store.finish(&lease, make.completed()).await.unwrap();
    let forked = fork(store, &make, lease.session, 1, &make.key("kept")).await;
    let swept = store.sweep(make.tenant(), everything(make.now() + 1)).await.unwrap();
    assert_eq!(swept.sessions, 1);
    assert_eq!(entries(store, &make, forked).await.len(), 1);
    assert_eq!(store.rows("entries", "true").await.len(), 1);
}

async fn the_transcript_of_a_fork_begins_with_its_own_lines(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = converse(store, &make, &key, owner).await;
    let forked = fork(store, &make, first.session, 1, &key).await;
    let of_fork = async || {
        let tasks = store.mirror_backlog(make.tenant(), ALL).await.unwrap();
        tasks.into_iter().find(|task| task.session == forked)
    };
    assert_eq!(of_fork().await, None);
    let lease = start(store, owner, make.accept(&key)).await;
    store.compact(&lease, make.compaction(1)).await.unwrap();
    let task = of_fork().await.unwrap();
    assert_eq!((task.position.seq, task.position.bytes, task.parent), (1, 0, Some((first.session, 1))));
    let own = store.entries(make.tenant(), forked, task.position.seq, ALL).await.unwrap();
    let [summary] = own.as_slice() else { panic!("{own:?}") };
    assert!(matches!(summary.body, EntryBody::Compaction(_)), "{summary:?}");
}

async fn the_lines_of_a_fork_are_read_page_by_page(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = converse(store, &make, &key, owner).await;
    converse(store, &make, &key, owner).await;
    let forked = fork(store, &make, first.session, 3, &key).await;
    converse(store, &make, &key, owner).await;
    let all = entries(store, &make, forked).await;
    assert_eq!(all.len(), 5);
    for limit in 1..=6_u32 {
        let mut read = Vec::new();
        loop {
            let after = read.last().map_or(0, |entry: &Entry| entry.seq);
            let page = store.entries(make.tenant(), forked, after, limit).await.unwrap();
            if page.is_empty() {
                break;
            }
            assert!(page.len() <= limit as usize);
            read.extend(page);
        }
        assert_eq!(read, all, "{limit} at once");
    }
    // Each stored line is found once, wherever it is looked for.
    let search = Search { words: "QUESTION".to_owned(), session: Some(forked), agent: None, limit: ALL };
    let found = store.search(make.tenant(), search.clone()).await.unwrap();
    assert_eq!(found.iter().map(|entry| entry.seq).collect::<Vec<_>>(), [4, 3, 1]);
    assert!(found.iter().all(|entry| matches!(entry.body, EntryBody::Message(Message::User { .. }))));
    let everywhere = Search { session: None, ..search };
    assert_eq!(store.search(make.tenant(), everywhere).await.unwrap().len(), 3);
}
