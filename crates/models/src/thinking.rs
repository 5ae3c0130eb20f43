//! Thinking levels, as people write them and as models take them.

pub(crate) fn supported_in(_error: &str) -> Option<Vec<tidegate_protocol::ThinkingLevel>> {
    None
}
