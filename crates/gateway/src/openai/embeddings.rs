//! `POST /v1/embeddings`: texts as vectors, made by a configured model.

use axum::extract::{Request, State};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_engine::{EngineError, SettingsError};

use super::error::{failed, invalid, missing};
use super::route;
use crate::answer::{Answered, Refusal, json};
use crate::body;
use crate::gate::Gate;

/// Texts of one request, as OpenAI bounds them.
const MOST_TEXTS: usize = 2048;
/// Bytes of a request.
const LARGEST: usize = 8 * 1024 * 1024;

#[derive(Debug, Deserialize)]
struct EmbeddingRequest {
    model: Option<String>,
    #[serde(default)]
    input: Value,
    encoding_format: Option<String>,
    dimensions: Option<usize>,
}

pub(crate) async fn embeddings(State(gate): State<Gate>, request: Request) -> Answered {
    let (parts, content) = request.into_parts();
    let asked: EmbeddingRequest = body::read_parts(&parts.headers, content, LARGEST).await?;
    let base64 = match asked.encoding_format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => return Err(invalid("encoding_format", "it is `float` or `base64`")),
    };
    let texts = texts(&asked.input)?;
    let name = asked.model.as_deref().map(str::trim).filter(|name| !name.is_empty());
    let name = name
        .ok_or_else(|| invalid("model", "name an embedding model, such as openai/text-embedding-3-small"))?;
    let settings = gate.engine().settings();
    let model = settings.embedding_model(name).map_err(|error| match error {
        SettingsError::UnknownModel { .. } | SettingsError::UnknownProvider { .. } => {
            missing("model", error.to_string())
        }
        other => other.into(),
    })?;
    let scope = settings.scope(route::agent(&parts.headers, None))?;
    let embedded = gate.engine().embed(&scope, model, texts).await.map_err(|error| match error {
        EngineError::Refused(body) => failed(body),
        other => other.into(),
    })?;
    let mut data = Vec::with_capacity(embedded.vectors.len());
    for (index, vector) in embedded.vectors.iter().enumerate() {
        let vector = shortened(vector, asked.dimensions)?;
        let vector = if base64 { Value::from(packed(&vector)) } else { json!(vector) };
        data.push(json!({"object": "embedding", "index": index, "embedding": vector}));
    }
    let tokens = embedded.usage.prompt();
    json(&json!({
        "object": "list", "data": data, "model": name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }))
}

fn texts(input: &Value) -> Result<Vec<String>, Refusal> {
    let wrong =
        || invalid("input", "it is a text, or a list of 1 to 2048 texts; lists of tokens are not read here");
    let texts: Vec<String> = match input {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) if !list.is_empty() && list.len() <= MOST_TEXTS => {
            let texts: Option<Vec<_>> = list.iter().map(|text| text.as_str().map(str::to_owned)).collect();
            texts.ok_or_else(wrong)?
        }
        _ => return Err(wrong()),
    };
    if texts.iter().any(|text| text.trim().is_empty()) {
        return Err(invalid("input", "a text is empty"));
    }
    Ok(texts)
}

/// The first so many numbers, scaled to the length of one again: what OpenAI's models mean by `dimensions`.
fn shortened(vector: &[f32], dimensions: Option<usize>) -> Result<Vec<f32>, Refusal> {
    let Some(wanted) = dimensions.filter(|wanted| *wanted != vector.len()) else {
        return Ok(vector.to_vec());
    };
    if wanted == 0 || wanted > vector.len() {
        return Err(invalid("dimensions", format!("this model's vectors have {} numbers", vector.len())));
    }
    let kept = &vector[..wanted];
    let length = kept.iter().map(|number| number * number).sum::<f32>().sqrt();
    Ok(if length > 0.0 { kept.iter().map(|number| number / length).collect() } else { kept.to_vec() })
}

/// The numbers' bytes, the lowest first.
fn packed(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
    BASE64_STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_vector_has_the_length_of_one() {
        assert_eq!(shortened(&[3.0, 4.0, 12.0], Some(2)).unwrap(), [0.6, 0.8]);
        assert_eq!(shortened(&[3.0, 4.0], Some(2)).unwrap(), [3.0, 4.0]);
        assert!(shortened(&[1.0], Some(2)).is_err() && shortened(&[1.0], Some(0)).is_err());
    }

    #[test]
    fn packed_numbers_are_little_endian_floats() {
        assert_eq!(packed(&[1.0, -2.0]), BASE64_STANDARD.encode([0, 0, 128, 63, 0, 0, 0, 192]));
    }
}
