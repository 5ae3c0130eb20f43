//! Every error a vendor tells apart, before an answer and inside one, is known for what it is.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_models::{CallOutcome, FailureKind};
use tidegate_protocol::Usage;
use tidegate_testkit::model_server::{Kind, Refusal, Step, Turn};

use crate::faces::{self, Face, for_every_face};
use crate::house::{House, question};

for_every_face![
    every_refusal_has_its_class_and_costs_nothing,
    a_wait_that_is_asked_for_is_told,
    an_error_inside_the_answer_keeps_what_was_said,
    an_error_inside_before_any_word_has_its_class_too,
    a_page_of_a_proxy_is_not_an_answer,
    an_error_that_is_no_json_is_known_by_its_status,
];

/// What a refusal must be taken for. Google's empty purse and Codex's read like a limit, and both pass.
fn meant(kind: Kind, face: Face) -> FailureKind {
    match kind {
        Kind::Billing if [faces::CODEX.api, faces::GOOGLE.api].contains(&face.api) => FailureKind::RateLimit,
        Kind::Auth | Kind::Forbidden => FailureKind::Auth,
        Kind::Billing => FailureKind::Billing,
        Kind::RateLimit => FailureKind::RateLimit,
        Kind::Overloaded => FailureKind::Overloaded,
        Kind::Server => FailureKind::Broken,
        Kind::BadRequest => FailureKind::Format,
        Kind::NoSuchModel => FailureKind::NoSuchModel,
        Kind::TooLong => FailureKind::ContextOverflow,
    }
}

async fn every_refusal_has_its_class_and_costs_nothing(face: Face) {
    for kind in Kind::ALL {
        let house = House::new().await;
        let heard = house.hear(face, Turn::refuse(kind), question("Hello?")).await;
        let failure = heard.failure();
        assert_eq!(failure.kind, meant(kind, face), "{kind:?}: {failure:?}");
        assert!(failure.status.is_some() && !failure.message.is_empty(), "{kind:?}: {failure:?}");
        assert!(heard.begun.is_empty());
        assert_eq!(house.asked().len(), 1, "{kind:?} is not tried again with the same key");
        let calls = house.ledger.take();
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].outcome, CallOutcome::Failed(failure.kind));
        assert_eq!((calls[0].usage, calls[0].estimated), (Usage::default(), false), "{kind:?}");
    }
}

async fn a_wait_that_is_asked_for_is_told(face: Face) {
    for kind in [Kind::RateLimit, Kind::Overloaded] {
        let house = House::new().await;
        let heard = house.hear(face, Turn::refuse_for(kind, 77), question("Hello?")).await;
        assert_eq!(heard.failure().retry_after, Some(Duration::from_secs(77)), "{kind:?}");
    }
    for (name, value) in [("retry-after-ms", "1500"), ("Retry-After", "1.5")] {
        let house = House::new().await;
        let headers = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let refusal = Refusal { kind: Kind::Overloaded, status: None, headers, body: None };
        let heard = house.hear(face, Turn::new([Step::Refuse(refusal)]), question("Hello?")).await;
        assert_eq!(heard.failure().retry_after, Some(Duration::from_millis(1500)), "{name}");
    }
}

async fn an_error_inside_the_answer_keeps_what_was_said(face: Face) {
    for kind in [Kind::Overloaded, Kind::RateLimit, Kind::Server] {
        let house = House::new().await;
        let turn = Turn::say("Half of it").then(Step::ErrorInside(kind));
        let heard = house.hear(face, turn, question("Hello?")).await;
        assert_eq!(heard.text(), "Half of it");
        let failure = heard.failure();
        assert_eq!(failure.kind, inside(kind, face), "{kind:?}: {failure:?}");
        let calls = house.ledger.take();
        assert_eq!(calls[0].outcome, CallOutcome::Failed(failure.kind));
        assert!(calls[0].usage.output > 0, "what was said was paid for");
    }
}

async fn an_error_inside_before_any_word_has_its_class_too(face: Face) {
    for kind in [Kind::Overloaded, Kind::RateLimit, Kind::TooLong] {
        let house = House::new().await;
        let heard = house.hear(face, Turn::new([Step::ErrorInside(kind)]), question("Hello?")).await;
        assert_eq!(heard.failure().kind, inside(kind, face), "{kind:?}: {:?}", heard.failure());
        assert!(heard.begun.is_empty() && heard.origin.is_none());
    }
}

/// Inside an answer there is no status, only words; Ollama's say less than its statuses.
fn inside(kind: Kind, face: Face) -> FailureKind {
    match kind {
        Kind::Overloaded | Kind::RateLimit if face.api == faces::OLLAMA.api => FailureKind::Broken,
        kind => meant(kind, face),
    }
}

async fn a_page_of_a_proxy_is_not_an_answer(face: Face) {
    for (status, kind) in
        [(200, FailureKind::Broken), (502, FailureKind::Broken), (503, FailureKind::Overloaded)]
    {
        let house = House::new().await;
        let heard = house.hear(face, Turn::new([Step::Html(status)]), question("Hello?")).await;
        assert_eq!(heard.failure().kind, kind, "{status}: {:?}", heard.failure());
        assert!(!heard.failure().message.contains('<'), "{}", heard.failure().message);
    }
}

async fn an_error_that_is_no_json_is_known_by_its_status(face: Face) {
    for (status, kind) in [
        (401, FailureKind::Auth),
        (403, FailureKind::Auth),
        (402, FailureKind::Billing),
        (404, FailureKind::NoSuchModel),
        (408, FailureKind::Timeout),
        (429, FailureKind::RateLimit),
        (500, FailureKind::Broken),
        (503, FailureKind::Overloaded),
        (504, FailureKind::Timeout),
        (529, FailureKind::Overloaded),
    ] {
        let house = House::new().await;
        let heard = house.hear(face, Turn::json(status, "no".into()), question("Hello?")).await;
        assert_eq!(heard.failure().kind, kind, "{status}");
        assert_eq!(heard.failure().status, Some(status));
    }
}
