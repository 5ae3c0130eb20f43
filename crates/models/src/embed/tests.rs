//! Requests, answers and batches; and one whole exchange over a socket.

use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_protocol::Cost;
use tidegate_secrets::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::catalogue::{Api, Price};

fn model(api: Api, provider: &str, dimensions: Option<u32>) -> EmbeddingInfo {
    EmbeddingInfo {
        provider: provider.to_owned(),
        id: "small".to_owned(),
        api,
        base_url: "https://models.example/v1".to_owned(),
        dimensions,
        price: Some(Price { input: 2.0, ..Price::default() }),
        headers: vec![("X-Extra".to_owned(), "yes".to_owned().into())],
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// The address, the name of the header with the key, and the body.
fn sent(model: &EmbeddingInfo, purpose: Purpose) -> (String, String, Value) {
    let inputs = texts(&["a", ""]);
    let access = Access::Key(Secret::new("key"));
    let prepared = formats::prepare(EmbedRequest { model, inputs: &inputs, purpose }, &access).unwrap();
    assert_eq!(prepared.headers.get("x-extra").unwrap().expose(), "yes");
    let key =
        prepared.headers.iter().find(|(_, value)| value.expose().ends_with("key")).unwrap().0.to_owned();
    (prepared.url, key, serde_json::from_slice(&prepared.body).unwrap())
}

fn parse(model: &EmbeddingInfo, count: usize, answer: &Value) -> Result<Embedded, FailureKind> {
    let inputs = vec![String::new(); count];
    let request = EmbedRequest { model, inputs: &inputs, purpose: Purpose::Stored };
    formats::parse(request, answer.to_string().as_bytes()).map_err(|failure| failure.kind)
}

#[test]
fn each_vendor_is_asked_in_its_own_words() {
    let (url, key, body) = sent(&model(Api::OpenaiCompletions, "mistral", None), Purpose::Stored);
    assert_eq!((url.as_str(), key.as_str()), ("https://models.example/v1/embeddings", "authorization"));
    assert_eq!(body, json!({"model": "small", "input": ["a", " "]}));

    let (_, _, body) = sent(&model(Api::OpenaiResponses, "openai", None), Purpose::Stored);
    assert_eq!(body, json!({"model": "small", "input": ["a", " "], "encoding_format": "base64"}));

    let (url, key, body) = sent(&model(Api::GoogleGenerativeAi, "google", None), Purpose::Query);
    assert_eq!(url, "https://models.example/v1/models/small:batchEmbedContents");
    assert_eq!(key, "x-goog-api-key");
    let asked = |text: &str| json!({"model": "models/small", "content": {"parts": [{"text": text}]}, "taskType": "RETRIEVAL_QUERY"});
    assert_eq!(body, json!({"requests": [asked("a"), asked(" ")]}));
    let (_, _, stored) = sent(&model(Api::GoogleGenerativeAi, "google", None), Purpose::Stored);
    assert_eq!(stored["requests"][0]["taskType"], json!("RETRIEVAL_DOCUMENT"));

    let (url, _, body) = sent(&model(Api::Ollama, "ollama", None), Purpose::Stored);
    assert_eq!(url, "https://models.example/v1/api/embed");
    assert_eq!(body, json!({"model": "small", "input": ["a", " "]}));

    let other = model(Api::AnthropicMessages, "anthropic", None);
    let request = EmbedRequest { model: &other, inputs: &[], purpose: Purpose::Stored };
    assert_eq!(formats::prepare(request, &Access::Open).unwrap_err().kind, FailureKind::Format);
}

#[test]
fn vectors_are_read_in_the_order_of_the_texts_as_numbers_or_as_bytes() {
    let model = model(Api::OpenaiResponses, "openai", Some(2));
    // 0.5 and -2.0 as bytes, the lowest first.
    let answer = json!({
        "data": [{"index": 1, "embedding": "AAAAPwAAAMA="}, {"index": 0, "embedding": [1.0, 0.25]}],
        "usage": {"prompt_tokens": 7, "total_tokens": 7},
    });
    let usage = Usage { input: 7, cost: Cost::from_usd(0.000_014), ..Usage::default() };
    let expected = Embedded { vectors: vec![vec![1.0, 0.25], vec![0.5, -2.0]], usage };
    assert_eq!(parse(&model, 2, &answer), Ok(expected));
}

#[test]
fn googles_and_ollamas_vectors_are_read() {
    let google = model(Api::GoogleGenerativeAi, "google", Some(2));
    let answer = json!({"embeddings": [{"values": [1.0, 2.0]}]});
    assert_eq!(parse(&google, 1, &answer).unwrap().vectors, [[1.0, 2.0]]);
    let ollama = model(Api::Ollama, "ollama", None);
    let answer = json!({"model": "small", "embeddings": [[1.0], [2.0]], "prompt_eval_count": 4});
    let embedded = parse(&ollama, 2, &answer).unwrap();
    assert_eq!((embedded.vectors, embedded.usage.input), (vec![vec![1.0], vec![2.0]], 4));
}

#[test]
fn vectors_that_do_not_fit_the_texts_are_a_broken_answer() {
    let ollama = model(Api::Ollama, "ollama", Some(2));
    for answer in [
        json!({"embeddings": []}),
        json!({"embeddings": [[1.0, 2.0]]}),
        json!({"embeddings": [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]}),
        json!({"embeddings": [[1.0, 2.0], [1.0]]}),
        json!({"embeddings": [[1.0, 2.0], [1.0, 1e300]]}),
        json!({"embeddings": [[], []]}),
        json!({"other": 1}),
    ] {
        assert_eq!(parse(&ollama, 2, &answer), Err(FailureKind::Broken), "{answer}");
    }
    let openai = model(Api::OpenaiResponses, "openai", None);
    for data in [
        json!([{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]),
        json!([{"index": 1, "embedding": [1.0]}, {"index": 2, "embedding": [1.0]}]),
        json!([{"index": 0, "embedding": "AAAAPw=="}, {"index": 1, "embedding": "AAA="}]),
        json!([{"index": 0, "embedding": "AAAAPw=="}, {"index": 1, "embedding": "no base64"}]),
    ] {
        assert_eq!(parse(&openai, 2, &json!({ "data": data })), Err(FailureKind::Broken), "{data}");
    }
}

proptest! {
    #[test]
    fn batches_are_bounded_and_lose_nothing(lengths in proptest::collection::vec(0_usize..9_000, 0..150)) {
        let inputs: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
        let cut: Vec<&[String]> = batches(&inputs).collect();
        prop_assert_eq!(&cut.concat(), &inputs);
        for batch in cut {
            let bytes: usize = batch.iter().map(String::len).sum();
            prop_assert!(!batch.is_empty() && batch.len() <= MOST_TEXTS);
            prop_assert!(bytes <= MOST_BYTES || batch.len() == 1);
        }
    }
}

#[test]
fn a_text_that_is_too_long_goes_alone() {
    let inputs = [texts(&["a"]), vec!["x".repeat(MOST_BYTES + 1)], texts(&["b", "c"])].concat();
    let sizes: Vec<usize> = batches(&inputs).map(<[String]>::len).collect();
    assert_eq!(sizes, [1, 1, 2]);
}

/// Answers one request with each of these.
async fn serve(listener: TcpListener, answers: Vec<(u16, Value)>) {
    for (status, answer) in answers {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        while !whole(&received) {
            assert_ne!(socket.read_buf(&mut received).await.unwrap(), 0);
        }
        let body = answer.to_string();
        let head =
            format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        socket.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    }
}

fn whole(received: &[u8]) -> bool {
    let text = String::from_utf8_lossy(received).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    body.len() >= length.parse::<usize>().unwrap()
}

const KEY: &str = "Zq7-embedding-swordfish";

async fn exchange(count: usize, answers: Vec<(u16, Value)>) -> Result<Embedded, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    let model = EmbeddingInfo { base_url, ..model(Api::Ollama, "ollama", None) };
    let inputs = vec!["text".to_owned(); count];
    let request = EmbedRequest { model: &model, inputs: &inputs, purpose: Purpose::Stored };
    let client = Client::default();
    let access = Access::Key(Secret::new(KEY));
    let asked = embed(&client, request, &access, Timeouts::default());
    tokio::join!(serve(listener, answers), asked).1
}

fn vectors(count: usize, length: usize) -> (u16, Value) {
    (200, json!({"embeddings": vec![vec![0.5; length]; count], "prompt_eval_count": count}))
}

#[tokio::test]
async fn many_texts_are_sent_in_batches_and_come_back_as_one() {
    let embedded = exchange(100, vec![vectors(96, 2), vectors(4, 2)]).await.unwrap();
    assert_eq!((embedded.vectors.len(), embedded.usage.input), (100, 100));
    assert_eq!(exchange(0, vec![]).await.unwrap(), Embedded::default());
}

#[tokio::test]
async fn one_bad_batch_fails_the_whole() {
    let lengths = exchange(100, vec![vectors(96, 2), vectors(4, 3)]).await;
    assert_eq!(lengths.unwrap_err().kind, FailureKind::Broken);
    let refused = exchange(1, vec![(404, json!({"error": "model \"small\" not found"}))]).await.unwrap_err();
    assert_eq!((refused.kind, refused.status), (FailureKind::NoSuchModel, Some(404)));
    assert_eq!(refused.message, "model \"small\" not found");
}

#[tokio::test]
async fn a_key_that_is_refused_is_not_repeated() {
    let refused = exchange(1, vec![(401, json!({"error": format!("{KEY} is wrong")}))]).await.unwrap_err();
    assert_eq!(refused.message, "[redacted] is wrong");
}
