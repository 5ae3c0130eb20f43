//! Whoever stops reading ends the call: the connection closes at once, and what was begun is in the ledger.

use std::time::Duration;

use futures_util::StreamExt as _;
use tidegate_models::{CallOutcome, ModelEvent};
use tidegate_protocol::Cost;
use tidegate_testkit::model_server::{Step, Turn};

use crate::faces::{Face, for_every_face};
use crate::house::{House, question};

/// Far less than any timeout of the program.
const AT_ONCE: Duration = Duration::from_secs(2);

for_every_face![
    a_dropped_stream_closes_its_connection_and_is_paid_for,
    a_stream_dropped_before_the_first_word_closes_its_connection,
];

async fn a_dropped_stream_closes_its_connection_and_is_paid_for(face: Face) {
    let house = House::new().await;
    house.server.push_for(face.model, Turn::say("The tide rises and falls again.").then(Step::Silence));
    let mut stream =
        house.open(&House::spec(&[&face.reference()])).stream(question("A long question, in words."));
    let mut said = String::new();
    while said.len() < "The tide rises and falls".len() {
        if let ModelEvent::TextDelta { text, .. } = stream.next().await.expect("more") {
            said.push_str(&text);
        }
    }
    assert!(house.ledger.take().is_empty(), "it is still going on");
    drop(stream);
    tokio::time::timeout(AT_ONCE, house.server.until_dropped(1)).await.expect("closed at once");
    let calls = house.ledger.take();
    assert_eq!(calls.len(), 1);
    let call = &calls[0];
    assert_eq!((call.outcome, call.profile_id.as_deref()), (CallOutcome::Dropped, Some(face.profile)));
    // Four characters a token, sent and received; who has counted already counts better.
    if call.estimated {
        let heard = u64::try_from(said.chars().count()).unwrap();
        assert_eq!((call.usage.input, call.usage.output), (7, heard.div_ceil(4)));
    }
    assert!(call.usage.cost > Cost::default(), "{:?}", call.usage);
}

async fn a_stream_dropped_before_the_first_word_closes_its_connection(face: Face) {
    for quiet in [Step::HalfOpen, Step::Silence] {
        let house = House::new().await;
        house.server.push_for(face.model, Turn::new([quiet]));
        let mut stream = house.open(&House::spec(&[&face.reference()])).stream(question("Hello?"));
        let waiting = tokio::time::timeout(Duration::from_millis(300), stream.next());
        assert!(waiting.await.is_err(), "nothing comes");
        drop(stream);
        tokio::time::timeout(AT_ONCE, house.server.until_dropped(1)).await.expect("closed at once");
        let calls = house.ledger.take();
        assert_eq!((calls.len(), calls[0].outcome), (1, CallOutcome::Dropped));
    }
}

#[tokio::test]
async fn a_stream_that_nobody_reads_asks_nobody() {
    let house = House::new().await;
    drop(house.open(&House::spec(&["anthropic/claude-sonnet-4-5"])).stream(question("Hello?")));
    assert_eq!((house.server.requests().len(), house.ledger.take().len()), (0, 0));
}
