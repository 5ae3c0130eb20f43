//! Questions through the client.

use std::time::Duration;

use tidegate_protocol::api::{Ask, AskAnswer, AskEvent};
use tidegate_protocol::{ErrorCode, RunState};
use tidegate_storage::RunLookup;
use tidegate_testkit::client::{AskStream, Client, ClientError, Token};

use crate::house::{House, LONG, is, until};

pub(crate) fn ask(text: &str, key: &str) -> Ask {
    Ask {
        text: text.to_owned(),
        session: "main".to_owned(),
        agent: None,
        new_session: false,
        provider: None,
        model: None,
        profile: None,
        thinking: None,
        timeout_ms: None,
        key: key.to_owned(),
        tools: None,
        dry_run: false,
        join: None,
        commands: false,
    }
}

/// The next line that is part of the answer: notices of what else happens are passed over.
pub(crate) async fn said(stream: &mut AskStream) -> Option<AskEvent> {
    loop {
        match stream.next(LONG).await.unwrap() {
            Some(AskEvent::Notice { .. }) => {}
            line => return line,
        }
    }
}

/// The deltas joined, and the answer.
async fn read(mut stream: AskStream) -> (String, AskAnswer) {
    let mut text = String::new();
    loop {
        match said(&mut stream).await.expect("an answer ends with its answer") {
            AskEvent::Delta { text: more } => text.push_str(&more),
            AskEvent::Answer(answer) => {
                assert_eq!(stream.next(LONG).await.unwrap(), None);
                return (text, answer);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_answer_streams_over_either_door_and_ends_with_what_is_durable() {
    let house = House::open().await;
    for (client, key) in [(house.client(), "k1"), (house.remote(), "k2")] {
        let (accepted, stream) = client.ask(&ask("你好", key), LONG).await.unwrap();
        let AskEvent::Accepted { run_id, replayed, .. } = accepted else { panic!("{accepted:?}") };
        assert!(!replayed);
        let (text, answer) = read(stream).await;
        assert_eq!((&text, answer.run_id), (&answer.text, run_id));
        let row =
            house.engine.library().run(house.engine.tenant(), &RunLookup::Id(run_id)).await.unwrap().unwrap();
        assert_eq!(row.state, RunState::Completed);
        let agent = house.engine.settings().scope(None).unwrap().agent;
        let file = house.engine.home().transcripts(&agent).join(format!("{}.jsonl", answer.session_name));
        assert!(
            std::fs::read_to_string(file).unwrap().contains("你好"),
            "the transcript is written before the last line"
        );
    }
}

#[tokio::test]
async fn the_same_question_with_the_same_key_gets_the_same_answer() {
    let house = House::open().await;
    let (_, first) = house.client().ask(&ask("hi", "k"), LONG).await.unwrap();
    let (_, first) = read(first).await;
    let (accepted, again) = house.client().ask(&ask("hi", "k"), LONG).await.unwrap();
    assert!(matches!(accepted, AskEvent::Accepted { replayed: true, .. }), "{accepted:?}");
    assert_eq!(read(again).await.1, first);
}

#[tokio::test]
async fn it_is_accepted_before_anything_is_answered() {
    let house = House::held().await;
    let (accepted, mut stream) = house.client().ask(&ask("hi", "k"), LONG).await.unwrap();
    let AskEvent::Accepted { run_id, .. } = accepted else { panic!("{accepted:?}") };
    let stored = house.engine.library().run(house.engine.tenant(), &RunLookup::Id(run_id)).await.unwrap();
    assert!(stored.is_some_and(|row| !row.state.is_terminal()), "durable and not ended");
    let early = tokio::time::timeout(Duration::from_millis(50), said(&mut stream)).await;
    assert!(early.is_err(), "{early:?}");
    house.models.let_through(1);
    assert!(matches!(said(&mut stream).await, Some(AskEvent::Delta { .. })));
    house.models.open();
    read(stream).await;
}

#[tokio::test]
async fn a_caller_that_hangs_up_ends_its_run() {
    let house = House::held().await;
    let mut events = house.engine.events();
    house.models.let_through(1);
    let (_, mut stream) = house.client().ask(&ask("hi", "k"), LONG).await.unwrap();
    assert!(matches!(said(&mut stream).await, Some(AskEvent::Delta { .. })));
    let run = stream.run();
    drop(stream);
    assert_eq!(until(&mut events, is(&RunState::Aborted)).await.run, run);
}

#[tokio::test]
async fn a_waiting_question_whose_caller_hangs_up_never_gets_its_turn() {
    let house = House::held().await;
    let mut events = house.engine.events();
    let (_, first) = house.client().ask(&ask("first", "k1"), LONG).await.unwrap();
    let (_, second) = house.client().ask(&ask("second", "k2"), LONG).await.unwrap();
    let second_run = second.run();
    drop(second);
    assert_eq!(until(&mut events, is(&RunState::Aborted)).await.run, second_run);
    house.models.open();
    read(first).await;
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_before_it_is_accepted() {
    let house = House::open().await;
    let unknown = Ask { provider: Some("nowhere".to_owned()), ..ask("hi", "k") };
    let agent = Ask { agent: Some("nobody".to_owned()), ..ask("hi", "k") };
    let empty = ask("  ", "k");
    for (question, status, code) in [
        (unknown, 400, ErrorCode::UnsupportedProvider),
        (agent, 404, ErrorCode::NotFound),
        (empty, 400, ErrorCode::BadRequest),
    ] {
        match house.client().ask(&question, LONG).await {
            Err(ClientError::Server { status: given, problem }) => {
                assert_eq!((given, problem.code), (status, code));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn an_answer_that_fails_ends_with_its_error() {
    let house = House::held().await;
    let short = Ask { timeout_ms: Some(20), ..ask("hi", "k") };
    let (_, mut stream) = house.client().ask(&short, LONG).await.unwrap();
    match said(&mut stream).await {
        Some(AskEvent::Error { error }) => assert_eq!(error.code, ErrorCode::DeadlineExceeded),
        other => panic!("{other:?}"),
    }
    assert_eq!(stream.next(LONG).await.unwrap(), None);
}

#[tokio::test]
async fn a_client_tells_nobody_and_strangers_apart() {
    let folder = tempfile::tempdir().unwrap();
    let nobody = Client::control(folder.path().join("control.sock"));
    assert!(matches!(nobody.status(LONG).await, Err(ClientError::Nobody { .. })));
    let house = House::open().await;
    let stranger = Client::http(house.address(), Token::new("wrong"));
    match stranger.status(LONG).await {
        Err(error @ ClientError::Server { status: 401, .. }) => {
            assert_eq!(error.body().code, ErrorCode::Unauthorized);
            assert!(error.hint().is_some());
        }
        other => panic!("{other:?}"),
    }
    assert!(!format!("{stranger:?}").contains("wrong"), "a token is never shown");
}
