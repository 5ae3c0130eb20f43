//! What comes with a message: images in base64, told apart by their bytes and not by what a client calls them.
//!
//! Whatever is none is refused: a client that shows a file as sent must not lose it.

use serde_json::Value;
use tidegate_protocol::{Block, Brought, Message};

use crate::gate::Gate;
use crate::ws::frame::WireError;

/// Bytes of one image.
const LARGEST: usize = 5_000_000;
/// Images of one message.
const MOST: usize = 16;

/// The images of a message.
pub(crate) async fn images(gate: &Gate, attachments: Option<&Vec<Value>>) -> Result<Vec<Block>, WireError> {
    let attachments = attachments.map(Vec::as_slice).unwrap_or_default();
    if attachments.len() > MOST {
        return Err(WireError::invalid(format!("a message may have {MOST} attachments")));
    }
    let mut images = Vec::new();
    for (index, attachment) in attachments.iter().enumerate() {
        let label = label(attachment, index);
        let refused = |why: &str| WireError::invalid(format!("attachment {label}: {why}"));
        let data = base64_of(attachment).ok_or_else(|| refused("content must be a base64 string"))?;
        let bytes = decoded(data);
        if bytes > LARGEST {
            return Err(refused(&format!("exceeds size limit ({bytes} > {LARGEST} bytes)")));
        }
        let address = format!("data:application/octet-stream;base64,{data}");
        let image = gate.engine().picture(&address).await;
        images.push(image.map_err(|error| refused(&error.body().message))?);
    }
    Ok(images)
}

/// What a run is asked when images come with its text.
pub(crate) fn with_images(text: &str, images: Vec<Block>, now: i64) -> Option<Box<Brought>> {
    if images.is_empty() {
        return None;
    }
    let words = (!text.is_empty()).then(|| Block::text(text.to_owned()));
    let input = Message::User { content: words.into_iter().chain(images).collect(), timestamp: now };
    Some(Box::new(Brought { input: Some(input), ..Brought::default() }))
}

fn label(attachment: &Value, index: usize) -> String {
    let named = ["fileName", "type", "mimeType"].into_iter().find_map(|name| attachment[name].as_str());
    named.map_or_else(|| format!("#{}", index + 1), str::to_owned)
}

/// The base64 of an attachment, in either of the forms in which it comes, without the head of a `data:` address.
fn base64_of(attachment: &Value) -> Option<&str> {
    let text = attachment["content"].as_str().or_else(|| attachment["source"]["data"].as_str())?;
    let data = match text.strip_prefix("data:") {
        Some(address) => address.split_once(";base64,")?.1,
        None => text,
    };
    let data = data.trim();
    (!data.is_empty()).then_some(data)
}

/// How many bytes a base64 text stands for.
fn decoded(data: &str) -> usize {
    data.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_of_an_attachment_leads_to_its_base64() {
        for (attachment, data) in [
            (json!({ "content": "aGk=" }), Some("aGk=")),
            (json!({ "content": "data:image/png;base64,aGk=" }), Some("aGk=")),
            (json!({ "type": "image", "source": { "type": "base64", "data": " aGk= " } }), Some("aGk=")),
            (json!({ "content": "data:image/png,raw" }), None),
            (json!({ "content": "" }), None),
            (json!({ "content": [1, 2] }), None),
            (json!({}), None),
        ] {
            assert_eq!(base64_of(&attachment), data, "{attachment}");
        }
        assert_eq!((decoded("aGk="), decoded("aGkh"), decoded("")), (2, 3, 0));
    }
}
