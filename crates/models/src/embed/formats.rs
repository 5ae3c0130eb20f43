//! The three ways vendors are asked for vectors.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;
use tidegate_net::{Headers, Method};
use tidegate_protocol::Usage;

use super::{EmbedRequest, Embedded, Purpose};
use crate::catalogue::{Api, EmbeddingInfo};
use crate::failure::{Failure, FailureKind};
use crate::wire::{Access, Prepared, google};

#[derive(Clone, Copy)]
enum Format {
    Openai,
    Google,
    Ollama,
}

/// The format that goes with what a provider's models speak.
fn format(model: &EmbeddingInfo) -> Result<Format, Failure> {
    match model.api {
        Api::OpenaiCompletions | Api::OpenaiResponses => Ok(Format::Openai),
        Api::GoogleGenerativeAi => Ok(Format::Google),
        Api::Ollama => Ok(Format::Ollama),
        other => {
            let message = format!("{} has no embeddings over {}", model.provider, other.as_str());
            Err(Failure::new(FailureKind::Format, message))
        }
    }
}

/// One batch as it goes out.
pub(super) fn prepare(request: EmbedRequest<'_>, access: &Access) -> Result<Prepared, Failure> {
    let EmbedRequest { model, inputs, purpose } = request;
    // An empty text is refused by some, and with it the others.
    let texts: Vec<&str> = inputs.iter().map(|text| if text.is_empty() { " " } else { text }).collect();
    let mut headers = Headers::default();
    headers.set("content-type", "application/json");
    let (url, body) = match format(model)? {
        Format::Openai => {
            let mut body = json!({ "model": model.id, "input": texts });
            // A quarter of the bytes; servers that only imitate may not know it.
            if matches!(model.provider.as_str(), "openai" | "azure-openai") {
                body["encoding_format"] = json!("base64");
            }
            (format!("{}/embeddings", model.base_url), body)
        }
        Format::Google => {
            let task = match purpose {
                Purpose::Stored => "RETRIEVAL_DOCUMENT",
                Purpose::Query => "RETRIEVAL_QUERY",
            };
            let name = format!("models/{}", model.id);
            let requests = texts.iter().map(
                |text| json!({ "model": name, "content": { "parts": [{ "text": text }] }, "taskType": task }),
            );
            let url = format!("{}:batchEmbedContents", google::address(&model.base_url, &model.id));
            (url, json!({ "requests": requests.collect::<Vec<_>>() }))
        }
        Format::Ollama => {
            (format!("{}/api/embed", model.base_url), json!({ "model": model.id, "input": texts }))
        }
    };
    match format(model)? {
        Format::Google => google::authorize(&mut headers, access),
        Format::Openai | Format::Ollama => {
            if let Some(bearer) = access.bearer() {
                headers.set_secret("authorization", &bearer);
            }
        }
    }
    for (name, value) in &model.headers {
        headers.set_secret(name, value);
    }
    let body = serde_json::to_vec(&body);
    let body = body.map_err(|error| Failure::new(FailureKind::Format, error.to_string()))?;
    Ok(Prepared { method: Method::Post, url, headers, body })
}

fn broken(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Broken, message)
}

#[derive(Deserialize)]
struct OpenaiAnswer {
    data: Vec<Item>,
    usage: Option<OpenaiTokens>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vector,
}

/// As numbers, or as the bytes of them, the lowest first.
#[derive(Deserialize)]
#[serde(untagged)]
enum Vector {
    Numbers(Vec<f32>),
    Bytes(String),
}

#[derive(Deserialize)]
struct OpenaiTokens {
    #[serde(default)]
    prompt_tokens: u64,
}

#[derive(Deserialize)]
struct GoogleAnswer {
    embeddings: Vec<Values>,
}

#[derive(Deserialize)]
struct Values {
    values: Vec<f32>,
}

#[derive(Deserialize)]
struct OllamaAnswer {
    embeddings: Vec<Vec<f32>>,
    #[serde(default)]
    prompt_eval_count: u64,
}

/// One batch's answer: a vector for each text, or a failure.
pub(super) fn parse(request: EmbedRequest<'_>, body: &[u8]) -> Result<Embedded, Failure> {
    let EmbedRequest { model, inputs, .. } = request;
    let (vectors, input) = match format(model)? {
        Format::Openai => {
            let answer: OpenaiAnswer = read(body)?;
            let tokens = answer.usage.map(|usage| usage.prompt_tokens).unwrap_or_default();
            (in_order(answer.data)?, tokens)
        }
        Format::Google => {
            let answer: GoogleAnswer = read(body)?;
            (answer.embeddings.into_iter().map(|item| item.values).collect(), 0)
        }
        Format::Ollama => {
            let answer: OllamaAnswer = read(body)?;
            (answer.embeddings, answer.prompt_eval_count)
        }
    };
    check(&vectors, inputs.len(), model)?;
    let mut usage = Usage { input, ..Usage::default() };
    usage.cost = model.price.map(|price| price.of(&usage)).unwrap_or_default();
    Ok(Embedded { vectors, usage })
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|error| broken(format!("the vectors cannot be read: {error}")))
}

/// The vectors by their numbers: nobody promises to keep the order.
fn in_order(items: Vec<Item>) -> Result<Vec<Vec<f32>>, Failure> {
    let mut numbered = Vec::with_capacity(items.len());
    for (place, item) in items.into_iter().enumerate() {
        numbered.push((item.index.unwrap_or(place), numbers(item.embedding)?));
    }
    numbered.sort_by_key(|(index, _)| *index);
    if numbered.iter().enumerate().any(|(place, (index, _))| place != *index) {
        return Err(broken("the vectors are not numbered as the texts"));
    }
    Ok(numbered.into_iter().map(|(_, vector)| vector).collect())
}

fn numbers(vector: Vector) -> Result<Vec<f32>, Failure> {
    let text = match vector {
        Vector::Numbers(numbers) => return Ok(numbers),
        Vector::Bytes(text) => text,
    };
    let bytes = STANDARD.decode(text).map_err(|error| broken(format!("a vector cannot be read: {error}")))?;
    let (numbers, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(broken("a vector ends inside a number"));
    }
    Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

fn check(vectors: &[Vec<f32>], wanted: usize, model: &EmbeddingInfo) -> Result<(), Failure> {
    if vectors.len() != wanted {
        return Err(broken(format!("{wanted} texts were sent and {} vectors came back", vectors.len())));
    }
    let expected = model.dimensions.map(|count| count as usize).or(vectors.first().map(Vec::len));
    let fits = |vector: &Vec<f32>| !vector.is_empty() && Some(vector.len()) == expected;
    if !vectors.iter().all(fits) {
        return Err(broken(format!("{} gave vectors of another length than it should", model.id)));
    }
    if !vectors.iter().flatten().all(|number| number.is_finite()) {
        return Err(broken("a vector has a number in it that is none"));
    }
    Ok(())
}
