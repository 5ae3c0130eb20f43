//! Texts become vectors with the same credentials, prices and ledger as everything else.

use serde_json::{Value, json};
use tidegate_models::{CallOutcome, Embedded, Failure, FailureKind, Purpose};
use tidegate_protocol::{Cost, Usage};
use tidegate_testkit::model_server::{Kind, Step, Turn};

use crate::house::{House, agent, reference};

const MODELS: [&str; 3] =
    ["openai/text-embedding-3-small", "google/gemini-embedding-001", "ollama/nomic-embed-text"];

async fn embed(house: &House, model: &str, texts: &[&str], purpose: Purpose) -> Result<Embedded, Failure> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    house.registry.embed(&agent(), &reference(model), &texts, purpose, &house.ledger).await
}

fn of_size(size: usize, first: f32) -> Vec<f32> {
    let mut vector = vec![0.25; size];
    vector[0] = first;
    vector
}

fn size(model: &str) -> usize {
    match model.split_once('/').unwrap().0 {
        "openai" => 1536,
        "google" => 3072,
        _ => 768,
    }
}

#[tokio::test]
async fn every_provider_gives_a_vector_for_each_text_and_is_paid() {
    for model in MODELS {
        let house = House::new().await;
        let vectors = vec![of_size(size(model), -0.5), of_size(size(model), 1.5)];
        let name = model.split_once('/').unwrap().1;
        house.server.push_for(name, Turn::new([Step::Vectors(vectors.clone())]));
        let embedded = embed(&house, model, &["high tide", "低潮"], Purpose::Stored).await.unwrap();
        assert_eq!(embedded.vectors, vectors, "{model}");
        // The server counts a token a text; Google does not say, so they are counted from the characters.
        let (input, cost) = match model.split_once('/').unwrap().0 {
            "openai" => (2, 2.0 * 0.02 / 1e6),
            "google" => (3, 3.0 * 0.15 / 1e6),
            _ => (2, 0.0),
        };
        let usage = Usage { input, cost: Cost::from_usd(cost), ..Usage::default() };
        assert_eq!(embedded.usage, usage, "{model}");
        let calls = house.ledger.take();
        assert_eq!(calls.len(), 1, "{model}");
        assert_eq!((&calls[0].model, calls[0].usage), (&reference(model), usage));
        assert_eq!(calls[0].outcome, CallOutcome::Answered);
        assert_eq!(calls[0].profile_id, Some(format!("{}/config", reference(model).provider)));
    }
}

#[tokio::test]
async fn texts_are_sent_as_the_vendor_wants_them() {
    let texts = ["high tide", ""];
    let google = |task: &str| {
        let one = |text: &str| json!({"model": "models/gemini-embedding-001", "content": {"parts": [{"text": text}]}, "taskType": task});
        json!({"requests": [one("high tide"), one(" ")]})
    };
    let openai = json!({
        "model": "text-embedding-3-small", "input": ["high tide", " "], "encoding_format": "base64",
    });
    let ollama = json!({"model": "nomic-embed-text", "input": ["high tide", " "]});
    let cases: [(&str, Purpose, &str, Value, &str); 4] = [
        (MODELS[0], Purpose::Stored, "/v1/embeddings", openai, "authorization"),
        (
            MODELS[1],
            Purpose::Stored,
            "/v1beta/models/gemini-embedding-001:batchEmbedContents",
            google("RETRIEVAL_DOCUMENT"),
            "x-goog-api-key",
        ),
        (
            MODELS[1],
            Purpose::Query,
            "/v1beta/models/gemini-embedding-001:batchEmbedContents",
            google("RETRIEVAL_QUERY"),
            "x-goog-api-key",
        ),
        (MODELS[2], Purpose::Query, "/api/embed", ollama, "authorization"),
    ];
    for (model, purpose, path, body, header) in cases {
        let house = House::new().await;
        let vectors = vec![of_size(size(model), 0.0), of_size(size(model), 1.0)];
        house.server.push_for(model.split_once('/').unwrap().1, Turn::new([Step::Vectors(vectors)]));
        embed(&house, model, &texts, purpose).await.unwrap();
        let asked = house.server.last_request();
        assert_eq!((asked.path.as_str(), &asked.body), (path, &body), "{model}");
        assert!(asked.header(header).is_some_and(|value| value.contains("key-of-")), "{model}");
    }
}

#[tokio::test]
async fn a_refused_key_gives_way_to_the_next_and_rests() {
    let house = House::new().await;
    house.store_key("openai/first", "key-one");
    house.server.push_for("text-embedding-3-small", Turn::refuse(Kind::Auth));
    let vectors = vec![of_size(1536, 0.5)];
    house.server.always_for("text-embedding-3-small", Turn::new([Step::Vectors(vectors)]));
    embed(&house, MODELS[0], &["tide"], Purpose::Query).await.unwrap();
    let outcomes: Vec<_> =
        house.ledger.take().into_iter().map(|call| (call.profile_id, call.outcome)).collect();
    let expected = [
        (Some("openai/first".to_owned()), CallOutcome::Failed(FailureKind::Auth)),
        (Some("openai/config".to_owned()), CallOutcome::Answered),
    ];
    assert_eq!(outcomes, expected);
    embed(&house, MODELS[0], &["tide"], Purpose::Query).await.unwrap();
    assert_eq!(house.ledger.take()[0].profile_id.as_deref(), Some("openai/config"));
}

#[tokio::test]
async fn vectors_that_do_not_fit_the_texts_are_no_vectors() {
    for (model, vectors) in [
        (MODELS[0], vec![of_size(1536, 0.0)]),
        (MODELS[1], vec![of_size(3072, 0.0), of_size(5, 0.0)]),
        (MODELS[2], vec![Vec::new(), Vec::new()]),
    ] {
        let house = House::new().await;
        house.server.push_for(model.split_once('/').unwrap().1, Turn::new([Step::Vectors(vectors)]));
        let failure = embed(&house, model, &["one", "two"], Purpose::Stored).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Broken, "{model}: {failure:?}");
    }
}

#[tokio::test]
async fn a_providers_own_headers_are_sent_too() {
    for model in MODELS.into_iter().chain(["openai/one-that-nobody-described"]) {
        let provider = reference(model).provider;
        let house = House::with(|config| {
            config["models"]["providers"][&provider]["headers"] = json!({"x-own": "of the operator"});
        })
        .await;
        let vectors = vec![of_size(size(model), 0.5)];
        house.server.push_for(&reference(model).model, Turn::new([Step::Vectors(vectors)]));
        embed(&house, model, &["tide"], Purpose::Query).await.unwrap();
        assert_eq!(house.server.last_request().header("x-own"), Some("of the operator"), "{model}");
    }
}

#[tokio::test]
async fn a_provider_without_embeddings_says_so() {
    let house = House::new().await;
    for model in ["anthropic/claude-sonnet-4-5", "nobody/nothing"] {
        let failure = embed(&house, model, &["tide"], Purpose::Query).await.unwrap_err();
        assert!(!failure.message.is_empty() && house.asked().is_empty(), "{model}: {failure:?}");
    }
}
