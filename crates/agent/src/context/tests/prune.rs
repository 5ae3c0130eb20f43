//! What a request leaves out, and what it never does.

use std::borrow::Cow;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_protocol::{Block, Message, Role};

use super::conversation::{any_conversation, timed};
use super::{answer, at, called, result, result_with, user};
use crate::context::{Pruning, PruningMode, prune};

const TTL: Duration = Duration::from_secs(1);

fn by(mode: PruningMode) -> Pruning {
    Pruning { mode, ttl: TTL, keep_assistants: 3, untrusted: false }
}

fn sent(messages: &[Message], pruning: &Pruning, window: u64) -> Vec<Message> {
    prune(messages, pruning, window).into_iter().map(Cow::into_owned).collect()
}

fn size(message: &Message) -> usize {
    message
        .content()
        .iter()
        .map(|block| if let Block::Text { text, .. } = block { text.chars().count() } else { 0 })
        .sum()
}

/// A result with that many characters.
fn long(size: usize) -> Message {
    result("a", &"x".repeat(size))
}

fn sizes(messages: &[Message]) -> Vec<usize> {
    messages.iter().filter(|message| message.role() == Role::ToolResult).map(size).collect()
}

/// Questions, then so many rounds with a result each, then three answers.
fn rounds(results: impl IntoIterator<Item = Message>) -> Vec<Message> {
    let rounds = results.into_iter().flat_map(|result| [called(&["a"]), result]);
    let end = (0..3).map(|_| answer("ok"));
    std::iter::once(user("u")).chain(rounds).chain(end).collect()
}

#[test]
fn the_recorded_cases_of_pruning_hold() {
    let cases = [
        (
            vec![user("u"), answer("a"), long(5_000), answer("a"), answer("a"), answer("a")],
            1_000,
            vec![3_086],
        ),
        (rounds([long(60_000), long(60_000)]), 2_000, vec![3_087, 3_087]),
    ];
    for (messages, window, expected) in cases {
        assert_eq!(sizes(&sent(&messages, &by(PruningMode::Size), window)), expected);
    }
}

#[test]
fn a_long_result_keeps_its_beginning_and_its_end() {
    let text = format!("{}{}{}", "b".repeat(1_500), "m".repeat(57_000), "e".repeat(1_500));
    let out = sent(&rounds([result("a", &text)]), &by(PruningMode::Size), 10_000);
    let expected = format!(
        "{}\n[…]\n{}\n\n[Shortened: the first 1500 and the last 1500 characters of 60000 are left here.]",
        "b".repeat(1_500),
        "e".repeat(1_500)
    );
    assert_eq!(out[2], result("a", &expected));
}

#[test]
fn nothing_happens_in_a_window_with_room_or_when_it_is_off() {
    let messages = rounds([long(11_900), long(90)]);
    let off = Pruning { untrusted: true, ..by(PruningMode::Off) };
    assert_eq!(sent(&messages, &by(PruningMode::Size), 10_100), messages, "less than three tenths");
    assert_eq!(sizes(&sent(&messages, &by(PruningMode::Size), 9_900)), [3_087, 90]);
    assert_eq!(sent(&messages, &off, 100), messages);
}

#[test]
fn the_oldest_results_are_left_out_until_half_the_window_is_free() {
    let messages = rounds((0..20).map(|_| long(4_000)));
    let out = sizes(&sent(&messages, &by(PruningMode::Size), 30_000));
    let gone = out.iter().take_while(|size| **size < 100).count();
    // 80,000 characters and a little; 60,000 are half of the window.
    assert_eq!(gone, 6);
    assert!(out[gone..].iter().all(|size| *size == 4_000), "{out:?}");
    let few = rounds((0..12).map(|_| long(4_000)));
    assert_eq!(sent(&few, &by(PruningMode::Size), 10_000), few, "not worth it");
}

#[test]
fn the_last_answers_keep_their_results() {
    let messages = vec![
        user("u"),
        called(&["a"]),
        long(9_000),
        called(&["a"]),
        long(9_000),
        called(&["a"]),
        long(9_000),
        answer("ok"),
    ];
    let out = sizes(&sent(&messages, &by(PruningMode::Size), 1_000));
    assert_eq!(out, [3_086, 9_000, 9_000]);
    let none = Pruning { keep_assistants: 0, ..by(PruningMode::Size) };
    assert_eq!(sizes(&sent(&messages, &none, 1_000)), [3_086, 3_086, 3_086]);
    let all = Pruning { keep_assistants: 5, ..by(PruningMode::Size) };
    assert_eq!(sent(&messages, &all, 1_000), messages);
}

#[test]
fn results_with_images_and_what_stands_before_the_first_question_are_never_touched() {
    let image = Block::Image { data: "AAAA".into(), mime_type: "image/png".into() };
    let picture = result_with("a", vec![Block::text("x".repeat(9_000)), image]);
    let mut messages = vec![called(&["a"]), long(9_000)];
    messages.extend(rounds([picture]));
    assert_eq!(sent(&messages, &by(PruningMode::Size), 1_000), messages);
}

#[test]
fn a_conversation_with_strangers_is_thinned_earlier_and_harder() {
    let untrusted = Pruning { untrusted: true, ..by(PruningMode::Size) };
    let messages = rounds([long(8_000)]);
    assert_eq!(sent(&messages, &by(PruningMode::Size), 10_000), messages);
    assert_eq!(sizes(&sent(&messages, &untrusted, 10_000)), [3_086]);
    let recent = vec![user("u"), called(&["a"]), long(8_000), answer("ok")];
    assert_eq!(sent(&recent, &by(PruningMode::Size), 1_000), recent);
    assert_eq!(sizes(&sent(&recent, &untrusted, 1_000)), [3_086]);
    let many = rounds((0..8).map(|_| long(4_000)));
    assert_eq!(sent(&many, &by(PruningMode::Size), 15_000), many);
    assert!(sizes(&sent(&many, &untrusted, 15_000)).contains(&68), "some are left out");
}

#[test]
fn a_prompt_that_is_still_cached_is_not_thinned() {
    let old = rounds([long(9_000)]);
    let ask = |pause| {
        let mut messages = old.clone();
        messages.push(at(user("and?"), pause));
        sizes(&sent(&messages, &by(PruningMode::CacheTtl), 1_000))
    };
    assert_eq!(ask(999), [9_000]);
    assert_eq!(ask(1_000), [3_086]);
}

#[test]
fn what_was_thinned_after_a_pause_stays_thinned_and_what_comes_later_stays_whole() {
    let mut messages = rounds([long(9_000)]);
    messages.push(at(user("and?"), 5_000));
    let first = sent(&messages, &by(PruningMode::CacheTtl), 1_000);
    messages
        .extend((1..6).flat_map(|round| [at(called(&["a"]), 5_000 + round), at(long(9_000), 5_000 + round)]));
    let later = sent(&messages, &by(PruningMode::CacheTtl), 1_000);
    assert_eq!(later[..first.len()], first);
    assert_eq!(sizes(&later), [3_086, 9_000, 9_000, 9_000, 9_000, 9_000]);
}

fn any_pruning() -> impl Strategy<Value = Pruning> {
    let modes = prop::sample::select(vec![PruningMode::Off, PruningMode::CacheTtl, PruningMode::Size]);
    (modes, 0..4usize, any::<bool>()).prop_map(|(mode, keep_assistants, untrusted)| Pruning {
        mode,
        ttl: TTL,
        keep_assistants,
        untrusted,
    })
}

proptest! {
    #[test]
    fn only_texts_of_results_get_shorter_and_nothing_goes(
        messages in any_conversation(),
        pauses in prop::collection::vec(0..1_500u16, 14),
        pruning in any_pruning(),
        window in 0..20_000u64,
    ) {
        let messages = timed(messages, &pauses);
        let out = prune(&messages, &pruning, window);
        prop_assert_eq!(out.len(), messages.len());
        for (before, after) in messages.iter().zip(&out) {
            prop_assert!(size(after) <= size(before));
            if let Cow::Owned(after) = after {
                let (Message::ToolResult { content, .. }, Message::ToolResult { tool_call_id, .. }) = (before, after)
                else {
                    return Err(TestCaseError::fail("something else than a result was changed"));
                };
                let has_image = content.iter().any(|block| matches!(block, Block::Image { .. }));
                prop_assert!(!has_image);
                let Message::ToolResult { tool_call_id: was, .. } = before else { unreachable!() };
                prop_assert_eq!(tool_call_id, was);
            }
        }
        prop_assert_eq!(prune(&messages, &pruning, window), out);
    }

    #[test]
    fn while_a_prompt_is_cached_a_longer_conversation_begins_with_the_same_bytes(
        before in any_conversation(),
        after in any_conversation(),
        pauses in prop::collection::vec(0..1_500u16, 14),
        keep_assistants in 0..4usize,
        window in 0..20_000u64,
    ) {
        let pruning = Pruning { keep_assistants, ..by(PruningMode::CacheTtl) };
        let before = timed(before, &pauses);
        let now = before.last().map_or(0, Message::timestamp);
        let after = after.into_iter().zip(1..).map(|(message, pause)| at(message, now + pause));
        let all: Vec<Message> = before.iter().cloned().chain(after).collect();
        let (short, long) = (sent(&before, &pruning, window), sent(&all, &pruning, window));
        prop_assert_eq!(&long[..short.len()], short);
    }
}
