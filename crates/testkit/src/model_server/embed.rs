//! Embeddings and lists of models, in the form of whoever was asked.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::format::Format;
use super::turn::{Step, Turn};

/// Numbers of a vector when nobody says how many.
const DIMENSIONS: u64 = 8;

/// Answers for each input; the turn may say with which vectors.
pub(crate) fn embed(format: Format, model: &str, body: &Value, turn: Option<&Turn>) -> Value {
    let inputs = inputs(format, body);
    let told = turn.and_then(|turn| {
        turn.steps.iter().find_map(|step| match step {
            Step::Vectors(vectors) => Some(vectors.clone()),
            _ => None,
        })
    });
    let asked = match format {
        Format::Google => body["requests"][0]["outputDimensionality"].as_u64(),
        _ => body["dimensions"].as_u64(),
    };
    let size = asked.unwrap_or(DIMENSIONS);
    let vectors = told.unwrap_or_else(|| inputs.iter().map(|text| vector(text, size)).collect());
    let tokens = inputs.len();
    match format {
        Format::Google => {
            let values = vectors.iter().map(|values| json!({ "values": values }));
            json!({"embeddings": values.collect::<Vec<_>>()})
        }
        Format::Ollama => json!({
            "model": model, "embeddings": vectors, "total_duration": 2_000_000, "load_duration": 1_000_000,
            "prompt_eval_count": tokens,
        }),
        _ => {
            let packed = body["encoding_format"] == "base64";
            let row = |(index, values): (usize, &Vec<f32>)| {
                let embedding = if packed { pack(values) } else { json!(values) };
                json!({"object": "embedding", "index": index, "embedding": embedding})
            };
            let data: Vec<_> = vectors.iter().enumerate().map(row).collect();
            let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
            json!({"object": "list", "data": data, "model": model, "usage": usage})
        }
    }
}

fn inputs(format: Format, body: &Value) -> Vec<String> {
    if format == Format::Google {
        let requests = body["requests"].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |request: &Value| {
            let parts = request["content"]["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
            parts.iter().filter_map(|part| part["text"].as_str()).collect()
        };
        return requests.iter().map(text).collect();
    }
    match &body["input"] {
        Value::Array(inputs) => inputs
            .iter()
            .map(|input| input.as_str().map_or_else(|| input.to_string(), str::to_owned))
            .collect(),
        Value::String(input) => vec![input.clone()],
        _ => Vec::new(),
    }
}

/// A vector of length one that depends on the words only: texts that share words are near each other.
fn vector(text: &str, size: u64) -> Vec<f32> {
    let mut values = vec![0f32; usize::try_from(size).unwrap_or_default().max(1)];
    for word in text.split_whitespace() {
        let hash = word.bytes().fold(5381usize, |hash, byte| hash.wrapping_mul(33) ^ usize::from(byte));
        let place = hash % values.len();
        values[place] += 1.0;
    }
    let length = values.iter().map(|value| value * value).sum::<f32>().sqrt().max(1.0);
    values.iter().map(|value| value / length).collect()
}

/// Little-endian numbers in base64, which OpenAI's clients ask for.
fn pack(values: &[f32]) -> Value {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    STANDARD.encode(bytes).into()
}

/// The list of models.
pub(crate) fn models(format: Format, ids: &[String]) -> Value {
    let rows = |row: &dyn Fn(&str) -> Value| ids.iter().map(|id| row(id)).collect::<Vec<_>>();
    match format {
        Format::Anthropic => {
            let row = |id: &str| json!({"type": "model", "id": id, "display_name": id, "created_at": "2026-01-01T00:00:00Z"});
            json!({"data": rows(&row), "first_id": ids.first(), "last_id": ids.last(), "has_more": false})
        }
        Format::Google => {
            let row = |id: &str| {
                json!({
                    "name": format!("models/{id}"), "displayName": id, "inputTokenLimit": 1_048_576,
                    "outputTokenLimit": 65_536, "supportedGenerationMethods": ["generateContent"],
                })
            };
            json!({"models": rows(&row)})
        }
        Format::Ollama => {
            let row = |id: &str| {
                json!({
                    "name": id, "model": id, "modified_at": "2026-01-01T00:00:00Z", "size": 4_000_000_000u64,
                    "digest": "0000", "details": {"format": "gguf", "family": "played", "parameter_size": "8B"},
                })
            };
            json!({"models": rows(&row)})
        }
        _ => {
            let row = |id: &str| json!({"id": id, "object": "model", "created": super::format::CREATED, "owned_by": "played"});
            json!({"object": "list", "data": rows(&row)})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_share_words_are_nearer() {
        let nearness =
            |a: &str, b: &str| -> f32 { vector(a, 64).iter().zip(vector(b, 64)).map(|(a, b)| a * b).sum() };
        assert!((nearness("the tide is high", "the tide is high") - 1.0).abs() < 1e-5);
        assert!(nearness("the tide is high", "the tide is low") > nearness("the tide is high", "a cat sat"));
    }
}
