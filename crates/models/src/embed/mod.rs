//! Texts as vectors, whoever makes them.
//!
//! What is sent and how an answer is read is pure ([`formats`]); [`embed`] cuts the texts into bounded batches, sends them
//! one after the other and puts the vectors together in the order of the texts.

mod calls;
mod formats;
#[cfg(test)]
mod tests;

use tidegate_net::{Client, Timeouts};
use tidegate_protocol::Usage;

use crate::blot::Blot;
use crate::call::{failed_net, outgoing, refusal};
use crate::catalogue::EmbeddingInfo;
use crate::failure::{Failure, FailureKind};
use crate::wire::Access;

/// Most texts of one batch: the smallest of the vendors' limits is 100.
const MOST_TEXTS: usize = 96;
/// Most bytes of one batch's texts, if it has more than one: vendors limit the tokens of a request.
const MOST_BYTES: usize = 200 << 10;
/// Most bytes of one answer.
const MOST_ANSWER: usize = 64 << 20;

/// What the vectors are for: some models make different ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Texts that are kept to be found.
    Stored,
    /// The words somebody looks for.
    Query,
}

/// Texts to be turned into vectors.
#[derive(Debug, Clone, Copy)]
pub struct EmbedRequest<'a> {
    pub model: &'a EmbeddingInfo,
    pub inputs: &'a [String],
    pub purpose: Purpose,
}

/// The vectors, in the order of the texts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Embedded {
    pub vectors: Vec<Vec<f32>>,
    pub usage: Usage,
}

/// Turns texts into vectors: all of them, or none.
pub(crate) async fn embed(
    client: &Client,
    request: EmbedRequest<'_>,
    access: &Access,
    timeouts: Timeouts,
) -> Result<Embedded, Failure> {
    let mut embedded = Embedded::default();
    for inputs in batches(request.inputs) {
        let batch = EmbedRequest { inputs, ..request };
        let prepared = formats::prepare(batch, access)?;
        let reply = client.call(outgoing(prepared, timeouts)).await.map_err(|error| failed_net(&error))?;
        if !(200..300).contains(&reply.status()) {
            return Err(refusal(reply, &Blot::of(access, &request.model.headers)).await);
        }
        let body = reply.bytes(MOST_ANSWER).await.map_err(|error| failed_net(&error))?;
        let part = formats::parse(batch, &body)?;
        embedded.vectors.extend(part.vectors);
        embedded.usage += part.usage;
    }
    if embedded.vectors.windows(2).any(|pair| pair[0].len() != pair[1].len()) {
        return Err(Failure::new(FailureKind::Broken, "the vectors have different lengths"));
    }
    Ok(embedded)
}

/// The texts in batches that every vendor takes. A text that is too long by itself goes alone.
fn batches(mut inputs: &[String]) -> impl Iterator<Item = &[String]> {
    std::iter::from_fn(move || {
        let mut bytes = 0_usize;
        let fitting = inputs.iter().take(MOST_TEXTS).take_while(|text| {
            bytes = bytes.saturating_add(text.len());
            bytes <= MOST_BYTES
        });
        let count = fitting.count().max(1);
        let (batch, rest) = inputs.split_at_checked(count)?;
        inputs = rest;
        Some(batch)
    })
}
