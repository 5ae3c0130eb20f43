//! Small answers that many methods share: done, and the kinds of nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

/// It was done.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct Done {
    ok: bool,
}

pub(crate) const DONE: Done = Done { ok: true };

/// A list of things that there are none of here.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EmptyList;

impl Serialize for EmptyList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(std::iter::empty::<()>())
    }
}

impl JsonSchema for EmptyList {
    fn schema_name() -> Cow<'static, str> {
        "EmptyList".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": false, "maxItems": 0 })
    }
}

/// Things by name that there are none of here.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EmptyMap;

impl Serialize for EmptyMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        BTreeMap::<(), ()>::new().serialize(serializer)
    }
}

impl JsonSchema for EmptyMap {
    fn schema_name() -> Cow<'static, str> {
        "EmptyMap".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": false })
    }
}

/// Where there may be something and is nothing: `null`.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
pub(crate) struct Null;

#[cfg(test)]
mod tests {
    use crate::ws::frame::to_json;

    use super::*;

    #[test]
    fn every_kind_of_nothing_is_written_as_itself() {
        assert_eq!(
            (to_json(&EmptyList), to_json(&EmptyMap), to_json(&Null)),
            ("[]".into(), "{}".into(), "null".into())
        );
        assert_eq!(to_json(&DONE), r#"{"ok":true}"#);
    }
}
