//! What a token says about itself. It came from the provider over its own connection, so its signature is not asked.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tidegate_secrets::Secret;

/// The claims, or null when it is no token of that form.
pub(super) fn claims(token: &Secret) -> Value {
    let payload = token.expose().split('.').nth(1).unwrap_or_default();
    let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or(Value::Null)
}

/// A token with these claims, for tests.
#[cfg(test)]
pub(super) fn token(claims: &Value) -> String {
    let part = |value: &str| URL_SAFE_NO_PAD.encode(value);
    [part(r#"{"alg":"none"}"#), part(&claims.to_string()), part("signature")].join(".")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_are_read_and_anything_else_has_none() {
        assert_eq!(claims(&Secret::new(token(&json!({"exp": 7})))), json!({"exp": 7}));
        for text in ["", "a", "a.b", "a.!.c", "..", "opaque-token"] {
            assert_eq!(claims(&Secret::new(text)), Value::Null, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_passes_without_a_panic(text in any::<String>()) {
            let _ = claims(&Secret::new(text));
        }
    }
}
