//! Faults happen where the turn says, in every format.

use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::Request;

use super::client::{ask, ask_whole, begin, question, send};
use super::reading::{events, seen};
use crate::model_server::{Format, Kind, ModelServer, Step, Turn};

fn cut_call(how: Step) -> Turn {
    let part = Step::PartOfCall { id: "c1".into(), name: "look".into(), json: r#"{"at":"Bre"#.into() };
    Turn::say("Let me look.").then(part).then(how)
}

#[tokio::test]
async fn a_reset_comes_inside_the_arguments_and_after_what_was_written() {
    let server = ModelServer::start().await;
    for format in Format::ALL {
        server.push(cut_call(Step::Reset));
        let came = ask(&server, format).await;
        assert!(!came.whole, "{format:?}");
        assert!(came.error.contains("ConnectionReset"), "{format:?}: {}", came.error);
        let text = String::from_utf8_lossy(&came.bytes()).into_owned();
        assert!(text.contains("Bre") && text.contains("look"), "{format:?}: {text}");
        assert!(!text.contains("tool_use\"}") && !text.contains("[DONE]"), "{format:?}: {text}");
    }
    assert_eq!(server.dropped(), 0, "it was the server that broke it");
}

#[tokio::test]
async fn a_close_is_no_reset_and_no_proper_end() {
    let server = ModelServer::start().await;
    server.push(cut_call(Step::Close));
    let came = ask(&server, Format::Anthropic).await;
    assert!(!came.whole && !came.error.contains("ConnectionReset"), "{}", came.error);
}

#[tokio::test]
async fn an_end_before_the_last_event_is_a_proper_end_of_the_body() {
    let server = ModelServer::start().await;
    for format in Format::ALL {
        server.push(Turn::say("and so").then(Step::End));
        let came = ask(&server, format).await;
        assert!(came.whole, "{format:?}");
        let told = seen(format, &events(format, &came));
        assert_eq!((told.text.as_str(), told.stop.as_str()), ("and so", ""), "{format:?}");
    }
}

#[tokio::test]
async fn an_error_inside_ends_the_answer_in_the_vendors_words() {
    let server = ModelServer::start().await;
    for (format, name, place) in [
        (Format::Anthropic, "error", "/error/type"),
        (Format::Completions, "", "/error/code"),
        (Format::Responses, "response.failed", "/response/error/code"),
        (Format::Codex, "response.failed", "/response/error/code"),
        (Format::Google, "", "/error/status"),
        (Format::Ollama, "", "/error"),
        (Format::Bedrock, "serviceUnavailableException", "/message"),
    ] {
        server.push(Turn::say("half of it").then(Step::ErrorInside(Kind::Overloaded)));
        let came = ask(&server, format).await;
        assert_eq!((came.status, came.whole), (200, true));
        let events = events(format, &came);
        let (told, data) = events.last().unwrap();
        assert_eq!(told, name, "{format:?}");
        assert!(data.pointer(place).is_some(), "{format:?}: {data}");
        server.push(Turn::say("half of it").then(Step::ErrorInside(Kind::Overloaded)));
        let refused = ask_whole(&server, format).await;
        assert!(refused.status >= 500, "{format:?}: who does not stream is refused");
    }
}

#[tokio::test]
async fn silence_begins_after_the_headers_and_who_leaves_is_counted() {
    let server = ModelServer::start().await;
    server.push(Turn::new([Step::Silence]));
    let mut coming = begin(&server, Format::Ollama).await;
    assert_eq!(coming.head.status(), 200);
    let nothing = tokio::time::timeout(Duration::from_millis(100), coming.piece()).await;
    assert!(nothing.is_err(), "something came");
    assert_eq!((server.dropped(), server.active()), (0, 1));
    drop(coming);
    server.until_dropped(1).await;
    assert_eq!(server.active(), 0);
}

#[tokio::test]
async fn half_open_sends_not_even_a_status() {
    let server = ModelServer::start().await;
    server.push(Turn::new([Step::HalfOpen]));
    let (path, body) = question(Format::Anthropic, "m", true);
    let request = Request::post(path).header("host", "played").body(Full::from(body.to_string())).unwrap();
    let waiting = send(&server, request);
    assert!(tokio::time::timeout(Duration::from_millis(100), waiting).await.is_err(), "a status came");
    assert_eq!(server.next_request().await.body, body);
}

#[tokio::test]
async fn who_leaves_in_the_middle_of_a_stream_is_counted() {
    let server = ModelServer::start().await;
    server.push(Turn::new([Step::Repeat { text: "on and on ".into(), times: usize::MAX }]));
    let mut coming = begin(&server, Format::Completions).await;
    for _ in 0..3 {
        coming.piece().await.unwrap().unwrap();
    }
    drop(coming);
    server.until_dropped(1).await;
    ask(&server, Format::Completions).await;
    assert_eq!(server.dropped(), 1, "who reads to the end is not counted");
}

#[tokio::test]
async fn a_pause_lets_what_came_before_it_through() {
    let server = ModelServer::start().await;
    let pause = Duration::from_millis(200);
    server.push(Turn::say("first").then(Step::Pause(pause)).then(Step::Say(" second".into())));
    let mut coming = begin(&server, Format::Ollama).await;
    let first = coming.piece().await.unwrap().unwrap();
    let begin = Instant::now();
    assert!(String::from_utf8_lossy(&first).contains("first"));
    coming.piece().await.unwrap().unwrap();
    assert!(begin.elapsed() > pause / 2, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn pieces_are_of_the_size_that_was_asked_for() {
    let server = ModelServer::start().await;
    for (size, format) in [(1, Format::Ollama), (7, Format::Bedrock), (1000, Format::Responses)] {
        server.push(Turn::say("潮 in pieces").then(Step::SplitEvery(size)));
        let came = ask(&server, format).await;
        let (last, others) = came.pieces.split_last().unwrap();
        assert!(!others.is_empty() && others.iter().all(|piece| piece.len() == size), "{format:?}");
        assert!(last.len() <= size);
        assert_eq!(seen(format, &events(format, &came)).text, "潮 in pieces", "{format:?}");
    }
}

#[tokio::test]
async fn events_come_twice_or_swapped_when_told() {
    let server = ModelServer::start().await;
    server.push(Turn::say("a"));
    let plain = events(Format::Anthropic, &ask(&server, Format::Anthropic).await);
    let names = |events: &[(String, serde_json::Value)]| {
        events.iter().map(|event| event.0.clone()).collect::<Vec<_>>()
    };
    server.push(Turn::say("a").then(Step::Duplicate));
    let doubled = names(&events(Format::Anthropic, &ask(&server, Format::Anthropic).await));
    assert_eq!(doubled, names(&plain).into_iter().flat_map(|name| [name.clone(), name]).collect::<Vec<_>>());
    server.push(Turn::say("a").then(Step::OutOfOrder));
    let swapped = names(&events(Format::Anthropic, &ask(&server, Format::Anthropic).await));
    assert_eq!(
        swapped,
        names(&plain).chunks(2).flat_map(|pair| pair.iter().rev().cloned()).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn raw_bytes_and_pages_are_as_they_were_given() {
    let server = ModelServer::start().await;
    server.push(Turn::new([Step::Raw(b": comment\n\n\xff".to_vec()), Step::End]));
    assert_eq!(ask(&server, Format::Google).await.bytes(), b": comment\n\n\xff");
    server.push(Turn::new([Step::Html(502)]));
    let page = ask(&server, Format::Google).await;
    assert_eq!((page.status, page.content_type.as_str()), (502, "text/html"));
    assert!(page.text().starts_with("<!DOCTYPE html>"));
}

#[tokio::test]
async fn a_long_stream_is_made_while_it_is_read() {
    let server = ModelServer::start().await;
    server.push(Turn::new([Step::Repeat { text: "x".repeat(10_000), times: 1_000 }]));
    let mut coming = begin(&server, Format::Anthropic).await;
    let mut bytes = 0;
    while let Some(piece) = coming.piece().await {
        bytes += piece.unwrap().len();
    }
    assert!(bytes > 10_000_000, "{bytes}");
    assert_eq!(server.dropped(), 0);
}

#[tokio::test]
async fn a_repeated_text_is_whole_in_every_format() {
    let server = ModelServer::start().await;
    for format in Format::ALL {
        server.push(Turn::say("a ").then(Step::Repeat { text: "token ".into(), times: 300 }));
        let came = events(format, &ask(&server, format).await);
        assert_eq!(seen(format, &came).text, format!("a {}", "token ".repeat(300)), "{format:?}");
        if matches!(format, Format::Responses | Format::Codex) {
            let numbers = came.iter().map(|(_, data)| data["sequence_number"].as_u64().unwrap());
            assert!(numbers.eq(0..came.len() as u64), "the events are numbered on");
        }
    }
}

#[tokio::test]
async fn a_whole_answer_breaks_in_its_middle() {
    let server = ModelServer::start().await;
    server.push(Turn::say("never whole").then(Step::Reset));
    let came = ask_whole(&server, Format::Completions).await;
    assert!(came.error.contains("ConnectionReset"), "{}", came.error);
    assert!(!came.bytes().is_empty());
    assert!(serde_json::from_slice::<serde_json::Value>(&came.bytes()).is_err());
}
