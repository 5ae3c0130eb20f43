//! What a run is shown of its log: the newest lines that fit, and what was summed up before them.

use tidegate_protocol::{Block, Entry, EntryBody, Message};
use tidegate_storage::{Context, ContextLimits, Finish, Lease, Step, StoreError};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::snapshot::ALL;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{converse, enlist, log, run, start};

on_both_backends! {
    lines_are_read_as_far_as_they_fit_into_the_bytes,
    lines_are_read_as_far_back_as_turns_are_wanted,
    a_turn_of_many_lines_is_read_whole,
    the_lines_of_the_run_itself_are_read_whatever_they_take,
    a_picture_does_not_push_out_what_was_said_before_it,
    a_log_that_has_not_begun_has_an_empty_context,
    the_time_of_the_last_write_is_that_of_the_run_before,
    what_a_run_said_before_it_was_summed_up_is_found_by_its_next_attempt,
    a_summary_takes_the_place_of_the_lines_before_the_first_kept,
    nothing_in_the_log_changes_when_it_is_summed_up,
    the_newest_of_several_summaries_is_shown,
    a_summary_may_keep_no_line_but_hides_only_what_exists,
    a_summary_cannot_bring_lines_back,
    a_run_whose_lines_were_summed_up_has_begun_all_the_same,
    what_summing_up_used_is_counted_with_its_run,
    notes_are_asked_for_once_a_cycle,
    the_tools_an_earlier_try_left_are_told,
}

const WHOLE: ContextLimits = ContextLimits { entries: ALL, ..ContextLimits::NONE };

async fn context(store: &ScratchStore, lease: &Lease) -> Context {
    store.context(lease, WHOLE).await.unwrap()
}

/// A conversation of so many turns, and a run under way in it that wrote its question.
async fn talked(store: &ScratchStore, make: &Requests, turns: usize) -> Lease {
    let owner = enlist(store, make).await;
    let key = make.key("work");
    for _ in 0..turns {
        converse(store, make, &key, owner).await;
    }
    let lease = start(store, owner, make.accept(&key)).await;
    store
        .step(&lease, Step { entries: vec![make.user("now")], now: make.now(), ..Step::default() })
        .await
        .unwrap();
    lease
}

fn seqs(entries: &[Entry]) -> Vec<i64> {
    entries.iter().map(|entry| entry.seq).collect()
}

fn size(entry: &Entry) -> u64 {
    u64::try_from(entry.body.to_stored().unwrap().1.len()).unwrap()
}

async fn lines_are_read_as_far_as_they_fit_into_the_bytes(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = talked(store, &make, 3).await;
    let all = log(store, &lease).await;
    // The newest is the run's own line, which does not count.
    let of_newest = |count: usize| all.iter().rev().take(count).skip(1).map(size).sum::<u64>();
    for (bytes, entries, count) in [
        (of_newest(7), ALL, 7),
        (of_newest(7) - 1, ALL, 6),
        (of_newest(3), ALL, 3),
        (of_newest(3) - 1, ALL, 2),
        (of_newest(3), 2, 2),
        (of_newest(1), ALL, 1),
        // At least one line, whatever its size.
        (0, ALL, 1),
        (1, 0, 1),
    ] {
        let found =
            store.context(&lease, ContextLimits { entries, bytes, ..ContextLimits::NONE }).await.unwrap();
        assert_eq!(seqs(&found.entries), seqs(&all[7 - count..]), "{bytes} bytes, {entries} lines");
        assert_eq!(found.cut, count < 7, "{bytes} bytes, {entries} lines");
    }
}

async fn lines_are_read_as_far_back_as_turns_are_wanted(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    // Question and answer three times, then the run's own line, which is no turn of the past.
    let lease = talked(store, &make, 3).await;
    for (turns, first) in [(1, 5), (2, 3), (3, 1), (4, 1), (u32::MAX, 1)] {
        let found = store.context(&lease, ContextLimits { turns, ..ContextLimits::NONE }).await.unwrap();
        assert_eq!(seqs(&found.entries), (first..=7).collect::<Vec<_>>(), "{turns} turns");
        assert_eq!(found.cut, first > 1, "{turns} turns");
    }
    let limits = ContextLimits { turns: 2, entries: 4, ..ContextLimits::NONE };
    assert_eq!(seqs(&store.context(&lease, limits).await.unwrap().entries), [4, 5, 6, 7]);
}

async fn a_turn_of_many_lines_is_read_whole(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = talked(store, &make, 2).await;
    let entries = (0..50).map(|_| make.assistant("on")).collect();
    store.step(&lease, Step { entries, now: make.now(), ..Step::default() }).await.unwrap();
    store.finish(&lease, make.completed()).await.unwrap();
    let next = start(store, lease.owner, make.accept(&lease.key)).await;
    let last = store.session(&lease.key).await.unwrap().unwrap().head_seq;
    for (turns, first) in [(1, last - 1), (2, 5), (3, 3), (4, 1)] {
        let found = store.context(&next, ContextLimits { turns, ..ContextLimits::NONE }).await.unwrap();
        assert_eq!(seqs(&found.entries), (first..=last).collect::<Vec<_>>(), "{turns} turns");
    }
}

async fn the_lines_of_the_run_itself_are_read_whatever_they_take(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = talked(store, &make, 1).await;
    let entries = vec![make.assistant(&"x".repeat(5_000)), make.assistant("on")];
    store.step(&lease, Step { entries, now: make.now(), ..Step::default() }).await.unwrap();
    let limits = ContextLimits { bytes: 1, ..ContextLimits::NONE };
    let found = store.context(&lease, limits).await.unwrap();
    assert_eq!(seqs(&found.entries), [3, 4, 5], "its own three, and nothing before them");
}

async fn a_picture_does_not_push_out_what_was_said_before_it(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = talked(store, &make, 1).await;
    let picture = Message::User {
        content: vec![Block::Image { data: "A".repeat(500_000), mime_type: "image/png".to_owned() }],
        timestamp: 0,
    };
    let mut entry = make.user("look");
    entry.body = EntryBody::Message(picture);
    let entries = vec![entry, make.assistant("a boat")];
    store.step(&lease, Step { entries, now: make.now(), ..Step::default() }).await.unwrap();
    store.finish(&lease, Finish { entries: Vec::new(), ..make.completed() }).await.unwrap();
    let next = start(store, lease.owner, make.accept(&lease.key)).await;
    let limits = ContextLimits { bytes: 100_000, ..ContextLimits::NONE };
    let found = store.context(&next, limits).await.unwrap();
    assert_eq!(seqs(&found.entries), [1, 2, 3, 4, 5]);
    assert!(!found.cut);
}

async fn a_log_that_has_not_begun_has_an_empty_context(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept(&make.key("work"))).await;
    assert_eq!(context(store, &lease).await, Context::default());
    assert!(!store.note_flush(&lease, make.now()).await.unwrap());
    let error = store.compact(&lease, make.compaction(2)).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
}

async fn the_time_of_the_last_write_is_that_of_the_run_before(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = start(store, owner, make.accept(&key)).await;
    store.step(&first, make.intent(vec![make.user("question")])).await.unwrap();
    assert_eq!(context(store, &first).await.touched_at, None, "only the run itself wrote");
    let finish = make.completed();
    store.finish(&first, finish.clone()).await.unwrap();
    let next = start(store, owner, make.accept(&key)).await;
    assert_eq!(context(store, &next).await.touched_at, Some(finish.now));
    store.step(&next, make.intent(vec![make.user("question")])).await.unwrap();
    assert_eq!(context(store, &next).await.touched_at, Some(finish.now));
}

async fn what_a_run_said_before_it_was_summed_up_is_found_by_its_next_attempt(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = talked(store, &make, 3).await;
    store.step(&lease, make.intent(vec![make.assistant("on")])).await.unwrap();
    assert!(context(store, &lease).await.summed_up.is_empty());
    store.compact(&lease, make.compaction(8)).await.unwrap();
    let found = context(store, &lease).await;
    assert_eq!((seqs(&found.summed_up), seqs(&found.entries)), (vec![7], vec![8]));
    // What another run did is none of the next one's business.
    store.finish(&lease, make.completed()).await.unwrap();
    let next = start(store, lease.owner, make.accept(&lease.key)).await;
    store.step(&next, make.intent(vec![make.user("next")])).await.unwrap();
    assert!(context(store, &next).await.summed_up.is_empty());
}

async fn a_summary_takes_the_place_of_the_lines_before_the_first_kept(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = talked(store, &make, 3).await;
    let compaction = make.compaction(5);
    let seq = store.compact(&lease, compaction.clone()).await.unwrap();
    assert_eq!(seq, 8);
    store.step(&lease, make.intent(vec![make.assistant("on")])).await.unwrap();
    let found = context(store, &lease).await;
    assert_eq!(seqs(&found.entries), [5, 6, 7, 9]);
    assert!(!found.cut, "what was summed up is not missing");
    let summary = found.summary.unwrap();
    assert_eq!((summary.seq, summary.id, summary.run_id), (8, compaction.id, lease.run));
    assert_eq!(summary.body, EntryBody::Compaction(compaction.compaction));
    assert_eq!((found.compactions, found.flushed), (1, false));
    // The next run finds the same.
    store.finish(&lease, make.completed()).await.unwrap();
    let next = start(store, lease.owner, make.accept(&lease.key)).await;
    let found = context(store, &next).await;
    assert_eq!((seqs(&found.entries), found.summary.unwrap().seq), (vec![5, 6, 7, 9, 10, 11], 8));
    let row = store.session(&lease.key).await.unwrap().unwrap();
    assert_eq!(row.compactions, 1);
}

async fn nothing_in_the_log_changes_when_it_is_summed_up(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = talked(store, &make, 3).await;
    let before = store.rows("entries", "true").await;
    store.compact(&lease, make.compaction(6)).await.unwrap();
    let after = store.rows("entries", "kind <> 'compaction'").await;
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
    let lines = log(store, &lease).await;
    assert_eq!(seqs(&lines), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(lines[7].parent_id, Some(lines[6].id));
}

async fn the_newest_of_several_summaries_is_shown(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = talked(store, &make, 3).await;
    store.compact(&lease, make.compaction(2)).await.unwrap();
    let newest = make.compaction(3);
    assert_eq!(store.compact(&lease, newest.clone()).await.unwrap(), 9);
    let found = context(store, &lease).await;
    assert_eq!(found.summary.unwrap().id, newest.id);
    // Neither summary is among the lines, though both come after the floor.
    assert_eq!(seqs(&found.entries), [3, 4, 5, 6, 7]);
    assert_eq!(found.compactions, 2);
    for entries in [1, 4, 5] {
        let limits = ContextLimits { entries, ..ContextLimits::NONE };
        let found = store.context(&lease, limits).await.unwrap();
        assert_eq!((found.entries.len(), found.cut), (entries as usize, entries < 5));
    }
}

async fn a_summary_may_keep_no_line_but_hides_only_what_exists(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = talked(store, &make, 1).await;
    let before = store.snapshot(make.tenant()).await;
    for beyond in [5, 6, i64::MAX] {
        let error = store.compact(&lease, make.compaction(beyond)).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
        before.assert_same(&store.snapshot(make.tenant()).await);
    }
    store.compact(&lease, make.compaction(4)).await.unwrap();
    let found = context(store, &lease).await;
    assert_eq!((found.entries, found.cut, found.summary.is_some()), (vec![], false, true));
}

async fn a_run_whose_lines_were_summed_up_has_begun_all_the_same(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    assert!(!context(store, &start(store, owner, make.accept(&make.key("other"))).await).await.begun);
    converse(store, &make, &key, owner).await;
    let lease = start(store, owner, make.accept(&key)).await;
    assert!(!context(store, &lease).await.begun);
    // A summary of what was said before is none of the run's own words.
    store.compact(&lease, make.compaction(2)).await.unwrap();
    assert!(!context(store, &lease).await.begun);
    let step = Step { entries: vec![make.user("now")], now: make.now(), ..Step::default() };
    let head = store.step(&lease, step).await.unwrap();
    assert!(context(store, &lease).await.begun);
    store.compact(&lease, make.compaction(head + 1)).await.unwrap();
    let found = context(store, &lease).await;
    assert_eq!((found.entries, found.begun), (vec![], true));
}

async fn a_summary_cannot_bring_lines_back(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = talked(store, &make, 3).await;
    store.compact(&lease, make.compaction(5)).await.unwrap();
    let before = store.snapshot(make.tenant()).await;
    for hidden in [i64::MIN, 0, 1, 4] {
        let error = store.compact(&lease, make.compaction(hidden)).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
        before.assert_same(&store.snapshot(make.tenant()).await);
    }
    store.compact(&lease, make.compaction(5)).await.unwrap();
    assert_eq!(seqs(&context(store, &lease).await.entries), [5, 6, 7]);
}

async fn what_summing_up_used_is_counted_with_its_run(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = talked(store, &make, 1).await;
    let mut compaction = make.compaction(2);
    compaction.calls = vec![make.call(40)];
    store.compact(&lease, compaction).await.unwrap();
    assert_eq!(run(store, &make, lease.run).await.usage.input, 40);
    let finished =
        store.finish(&lease, Finish { calls: vec![make.call(2)], ..make.completed() }).await.unwrap();
    assert_eq!(finished.usage.input, 42);
    assert_eq!(store.session(&lease.key).await.unwrap().unwrap().usage.input, 42);
}

async fn notes_are_asked_for_once_a_cycle(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let lease = talked(store, &make, 2).await;
    for cycle in 0..3 {
        assert!(!context(store, &lease).await.flushed, "cycle {cycle}");
        let now = make.now();
        assert!(store.note_flush(&lease, now).await.unwrap());
        assert!(context(store, &lease).await.flushed);
        let before = store.session_by_name(make.tenant(), &lease.session.to_string()).await.unwrap().unwrap();
        assert_eq!(before.flushed_at, Some(now));
        assert!(!store.note_flush(&lease, make.now()).await.unwrap());
        let after = store.session_by_name(make.tenant(), &lease.session.to_string()).await.unwrap().unwrap();
        assert_eq!(before, after, "a second time notes nothing");
        store.compact(&lease, make.compaction(2)).await.unwrap();
    }
}

async fn the_tools_an_earlier_try_left_are_told(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let lease = start(store, owner, make.accept_from_channel(&make.key("work"))).await;
    let intent = make.intent(vec![make.user("question")]);
    store.step(&lease, intent.clone()).await.unwrap();
    let (owner, _) = crate::scene::restart(store, &make, owner).await;
    let again = crate::scene::claim(store, &make, &lease.key, owner).await;
    let left = store.steps(&again).await.unwrap();
    assert_eq!(left, store.tool_runs(make.tenant(), lease.run).await.unwrap());
    let [tool] = left.as_slice() else { panic!("{left:?}") };
    assert_eq!((tool.id, tool.state.as_str()), (intent.begun[0].id, "interrupted"));
}
