//! Any conversation, right or wrong.

use proptest::prelude::*;
use tidegate_protocol::{Block, Message};

use super::{answer, at, called, result, result_with, user};

pub(super) fn any_conversation() -> impl Strategy<Value = Vec<Message>> {
    prop::collection::vec(any_message(), 0..14)
}

fn any_message() -> impl Strategy<Value = Message> {
    let ids = || prop::sample::select(vec!["a", "b", "c"]);
    let image = || Block::Image { data: "AAAA".into(), mime_type: "image/png".into() };
    prop_oneof![
        3 => "[a-z]{0,3}".prop_map(|text| user(&text)),
        2 => "[a-z]{0,3}".prop_map(|text| answer(&text)),
        3 => prop::collection::vec(ids(), 1..3).prop_map(|ids| called(&ids)),
        4 => (ids(), 0..9_000usize).prop_map(|(id, size)| result(id, &"x".repeat(size))),
        1 => ids().prop_map(move |id| result_with(id, vec![Block::text("seen"), image()])),
    ]
}

/// The messages with times that are so many milliseconds apart.
pub(super) fn timed(messages: Vec<Message>, pauses: &[u16]) -> Vec<Message> {
    let mut now = 0;
    let pauses = pauses.iter().chain(std::iter::repeat(&1));
    let timed = messages.into_iter().zip(pauses).map(|(message, pause)| {
        now += i64::from(*pause);
        at(message, now)
    });
    timed.collect()
}
