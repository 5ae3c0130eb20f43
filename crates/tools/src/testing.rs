//! What recorded cases are compared with from outside. Not part of the crate's promises.

/// The bytes of these keys one after the other, or the first token that means nothing.
///
/// # Errors
///
/// The token that is no key.
pub fn encode_keys(tokens: &[String]) -> Result<Vec<u8>, String> {
    crate::exec::keys::encode(tokens)
}
