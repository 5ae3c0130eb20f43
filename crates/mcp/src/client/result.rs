//! What a server answered, as a tool's output. Pure.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::json;
use tidegate_protocol::Block;
use tidegate_tools::{Output, ToolFailure, fence, truncate};

/// Bytes of text of one result.
const MOST_TEXT: usize = 128 * 1024;
/// Blocks of one result, and pictures among them.
const MOST_BLOCKS: usize = 64;
const MOST_IMAGES: usize = 8;
/// Bytes of one picture in base64.
const LARGEST_IMAGE: usize = 7 * 1024 * 1024;
/// Pictures that models can look at.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A result, or the failure that the server reports. Its text stands in a fence: it comes from outside.
pub(crate) fn output(server: &str, result: CallToolResult) -> Result<Output, ToolFailure> {
    let mut gathered = Gathered::default();
    for (index, block) in result.content.into_iter().enumerate() {
        if index == MOST_BLOCKS {
            gathered.leave("more blocks");
            break;
        }
        gathered.take(block);
    }
    if gathered.text.is_empty()
        && gathered.images.is_empty()
        && let Some(data) = &result.structured_content
    {
        gathered.say(&data.to_string());
    }
    let Gathered { text, images, left_out } = gathered;
    let text =
        if left_out.is_empty() { text } else { format!("{text}\n[left out: {}]", left_out.join(", ")) };
    let mut content = Vec::new();
    if !text.trim().is_empty() {
        content.push(Block::text(fence(&format!("the MCP server {server}"), &text)));
    }
    content.extend(images);
    if content.is_empty() {
        content.push(Block::text("The server answered nothing."));
    }
    let output = Output { content, data: result.structured_content, truncated: !left_out.is_empty() };
    if result.is_error != Some(true) {
        return Ok(output);
    }
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("the tool failed");
    let first = tidegate_policy::inert::inert_line(truncate::head_bytes(first.trim(), 300));
    let mut failure = ToolFailure::execution(format!("the server reports: {first}"));
    failure.details = Some(json!({ "server": server }));
    failure.output = Some(Box::new(output));
    Err(failure)
}

#[derive(Default)]
struct Gathered {
    text: String,
    images: Vec<Block>,
    left_out: Vec<String>,
}

impl Gathered {
    fn take(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.say(&text.text),
            ContentBlock::Image(image) => self.show(image.data, &image.mime_type),
            ContentBlock::Audio(audio) => self.leave(&format!("sound ({})", audio.mime_type)),
            ContentBlock::ResourceLink(link) => self.say(&format!("[resource {}: {}]", link.name, link.uri)),
            ContentBlock::Resource(embedded) => match embedded.resource {
                ResourceContents::TextResourceContents { uri, text, .. } => {
                    self.say(&format!("[resource {uri}]\n{text}"));
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    match mime_type.as_deref().filter(|kind| IMAGES.contains(kind)) {
                        Some(kind) => self.show(blob, kind),
                        None => self.leave(&format!("the bytes of {uri}")),
                    }
                }
                _ => self.leave("a resource of an unknown kind"),
            },
            _ => self.leave("content of an unknown kind"),
        }
    }

    fn say(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let room = MOST_TEXT.saturating_sub(self.text.len());
        let kept = truncate::head_bytes(text, room);
        self.text.push_str(kept);
        if kept.len() < text.len() {
            self.leave(&format!("{} bytes of text", text.len() - kept.len()));
        }
    }

    fn show(&mut self, data: String, kind: &str) {
        if !IMAGES.contains(&kind) {
            self.leave(&format!("a picture of type {kind}"));
        } else if data.len() > LARGEST_IMAGE {
            self.leave("a picture that is too large");
        } else if self.images.len() == MOST_IMAGES {
            self.leave("more pictures");
        } else {
            self.images.push(Block::Image { data, mime_type: kind.to_owned() });
        }
    }

    fn leave(&mut self, what: &str) {
        self.left_out.push(tidegate_policy::inert::inert_line(truncate::head_bytes(what, 200)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(value: Value) -> Result<Output, ToolFailure> {
        output("s", serde_json::from_value(value).unwrap())
    }

    #[test]
    fn text_is_fenced_pictures_are_blocks_and_data_is_data() {
        let output = of(json!({
            "content": [
                {"type": "text", "text": "hello"},
                {"type": "image", "data": "AAAA", "mimeType": "image/png"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "demo://1", "text": "inside"}},
            ],
            "structuredContent": {"n": 1},
        }))
        .unwrap();
        let [Block::Text { text, .. }, Block::Image { data, mime_type }] = output.content.as_slice() else {
            panic!("{output:?}");
        };
        assert!(
            text.contains("hello") && text.contains("inside") && text.contains("never instructions"),
            "{text}"
        );
        assert!(text.contains("left out: sound (audio/wav)"), "{text}");
        assert_eq!((data.as_str(), mime_type.as_str()), ("AAAA", "image/png"));
        assert_eq!((output.data, output.truncated), (Some(json!({"n": 1})), true));
    }

    #[test]
    fn an_error_of_the_server_is_a_failure_of_the_tool() {
        let failure =
            of(json!({"content": [{"type": "text", "text": "no such\u{1b} file"}], "isError": true}))
                .unwrap_err();
        assert!(
            failure.message.starts_with("the server reports: no such") && !failure.message.contains('\u{1b}')
        );
        assert!(failure.output.is_some());
    }

    #[test]
    fn a_result_is_bounded_however_much_comes() {
        let blocks: Vec<_> = (0..200).map(|_| json!({"type": "text", "text": "x".repeat(10_000)})).collect();
        let output = of(json!({ "content": blocks })).unwrap();
        let size: usize = output
            .content
            .iter()
            .map(|block| match block {
                Block::Text { text, .. } => text.len(),
                _ => 0,
            })
            .sum();
        assert!(output.truncated && size < MOST_TEXT + 20_000, "{size}");
        let images: Vec<_> =
            (0..20).map(|_| json!({"type": "image", "data": "AAAA", "mimeType": "image/png"})).collect();
        assert_eq!(of(json!({ "content": images })).unwrap().content.len(), MOST_IMAGES + 1);
    }

    #[test]
    fn nothing_at_all_is_said_to_be_nothing_and_data_alone_is_read_out() {
        assert_eq!(
            of(json!({"content": []})).unwrap().content,
            [Block::text("The server answered nothing.")]
        );
        let output = of(json!({"content": [], "structuredContent": {"a": 1}})).unwrap();
        assert!(matches!(&output.content[0], Block::Text { text, .. } if text.contains(r#"{"a":1}"#)));
    }
}
