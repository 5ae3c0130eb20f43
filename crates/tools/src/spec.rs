//! What is known about a tool before it is called.

use std::time::Duration;

use schemars::JsonSchema;
use serde_json::Value;
use tidegate_protocol::Risk;

/// How long a tool may take unless it says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(8);

#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// As it is shown to models and people. Names are found whatever their case.
    pub name: String,
    /// Other names it answers to; policy sees the name only.
    pub aliases: Vec<String>,
    /// For the model: what it does and when to use it, in few words.
    pub description: String,
    /// A JSON Schema of type `object`, without references.
    pub input_schema: Value,
    pub risk: Risk,
    /// Running it twice is the same as running it once.
    pub idempotent: bool,
    /// Absent: the tool keeps its own time.
    pub timeout: Option<Duration>,
}

impl ToolSpec {
    /// A tool whose arguments are `A`. Reading, idempotent, with the default timeout, until said otherwise.
    pub fn of<A: JsonSchema>(name: &str, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            aliases: Vec::new(),
            description: description.to_owned(),
            input_schema: schema_of::<A>(),
            risk: Risk::Read,
            idempotent: true,
            timeout: Some(DEFAULT_TIMEOUT),
        }
    }
}

/// The schema of an argument type as models read it: one object, nothing to look up, no words they do not need.
fn schema_of<A: JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        object.entry("type").or_insert_with(|| "object".into());
        object.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
        object.insert("additionalProperties".to_owned(), false.into());
    }
    schema
}
