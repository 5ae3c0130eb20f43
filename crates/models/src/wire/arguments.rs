//! A call's arguments on their way back to a model.

use std::borrow::Cow;

use serde_json::{Value, json};

/// The arguments as the object every vendor asks for. What was no JSON is shown to the model as the text it wrote.
pub(crate) fn object(arguments: &Value) -> Cow<'_, Value> {
    match arguments {
        Value::Object(_) => Cow::Borrowed(arguments),
        Value::Null => Cow::Owned(json!({})),
        other => Cow::Owned(json!({ "invalid": other })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vendor_always_gets_an_object() {
        assert_eq!(*object(&json!({"a": 1})), json!({"a": 1}));
        assert_eq!(*object(&json!(null)), json!({}));
        assert_eq!(*object(&json!("{\"a\": ")), json!({"invalid": "{\"a\": "}));
    }
}
