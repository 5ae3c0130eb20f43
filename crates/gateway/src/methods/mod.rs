//! The table of methods: one row a method, with what it needs, what it takes and what it answers.
//!
//! Whoever may call, what is wrong with parameters, what clients are told that there is, and the reference page all come
//! from the row. There is no other way to a handler: what has no row is no method.

mod later;
pub(crate) mod once;
mod table;
mod typescript;
pub(crate) mod validate;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate_protocol::ErrorCode;
use tidegate_protocol::schema::Shape;
use tidegate_runtime::fault;

use crate::gate::Gate;
use crate::ws::frame::{self, Request, WireError};
use crate::ws::peer::{Dialect, Peer};
use crate::ws::scope::{self, Need};
use validate::Unnamed;

pub use table::METHODS;
pub use typescript::{native_typescript, typescript};

/// What a second call with the same key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// The call changes nothing, or the same again: it needs no key.
    Harmless,
    /// The call carries a key, and the same key again is the same call: it is answered what it was answered before.
    Keyed,
    /// The same, and the call is a run: the key again finds that run, whatever became of it.
    Run,
    /// The call does what it does again.
    Again,
}

/// What there is behind a row.
#[derive(Clone, Copy)]
pub(crate) enum Behind {
    Handler {
        call: fn(Caller, Value) -> BoxFuture<'static, Result<String, WireError>>,
    },
    /// Known to clients and not built yet: `UNAVAILABLE`.
    Nothing,
}

/// A row.
pub struct Method {
    pub name: &'static str,
    pub dialect: Dialect,
    pub need: Need,
    pub repeat: Repeat,
    /// The types of its parameters and its result, as the table writes them.
    pub params: &'static str,
    pub result: &'static str,
    pub(crate) schema: &'static LazyLock<Value>,
    pub(crate) behind: Behind,
}

/// What only generators want to know about a row that is served.
pub(crate) struct Described {
    dialect: Dialect,
    name: &'static str,
    /// The types in TypeScript, where they are those of `tidegate_protocol` and bring it along.
    shapes: Option<(Shape, Shape)>,
    /// What it answers, as JSON Schema; the types it refers to join the generator's.
    answers: fn(&mut SchemaGenerator) -> Schema,
}

impl Method {
    /// Whether it does what it is there for.
    pub fn is_served(&self) -> bool {
        matches!(self.behind, Behind::Handler { .. })
    }

    /// What its parameters look like, as JSON Schema.
    pub fn schema(&self) -> &Value {
        self.schema
    }

    /// What its result looks like, as JSON Schema; `None` for one that has none yet.
    pub(crate) fn answers(&self, generator: &mut SchemaGenerator) -> Option<Value> {
        self.described().map(|row| (row.answers)(generator).to_value())
    }

    /// The types of its parameters and its result in TypeScript; `None` for those of other dialects.
    fn shapes(&self) -> Option<(Shape, Shape)> {
        self.described()?.shapes
    }

    fn described(&self) -> Option<&'static Described> {
        table::DESCRIBED.iter().find(|row| row.dialect == self.dialect && row.name == self.name)
    }

    /// The type of its result without where it is written.
    fn result_name(&self) -> &'static str {
        self.result.rsplit("::").next().unwrap_or(self.result)
    }
}

/// Who calls, and where the answer goes.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) gate: Gate,
    pub(crate) peer: Arc<Peer>,
    /// Of the request.
    pub(crate) id: String,
    /// What is done once the answer is on its way.
    pub(crate) later: Arc<Mutex<Option<BoxFuture<'static, ()>>>>,
}

impl Caller {
    pub(crate) fn new(gate: Gate, peer: Arc<Peer>, id: String) -> Self {
        Self { gate, peer, id, later: Arc::default() }
    }

    /// Does something once the answer is on its way: what it tells comes after it.
    pub(crate) fn afterwards(&self, work: BoxFuture<'static, ()>) {
        *self.later.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
    }

    /// Answers now what will be answered again at the end, under the same id.
    pub(crate) fn acknowledge(&self, payload: &impl Serialize) {
        self.peer.send(frame::response(&self.id, &frame::to_json(payload)));
    }
}

/// Parameters of a method that takes none.
#[derive(Debug, serde::Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

/// The schema of a type, closed: what a client misspells is told and not ignored.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    close(&mut schema);
    schema
}

/// Collects the types of what the methods of a dialect answer, as they are written and not as they are read.
pub(crate) fn answer_types(dialect: Dialect) -> SchemaGenerator {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.definitions_path = format!("/$defs/{}", dialect.as_str()).into();
    settings.into_generator()
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            let closes =
                fields.get("type").is_some_and(|kind| kind == "object") && fields.contains_key("properties");
            if closes {
                fields.entry("additionalProperties").or_insert(json!(false));
            } else if fields.get("type").is_some_and(|kind| kind == "object")
                && fields.contains_key("title")
                && !takes_anything(fields)
            {
                // A type without a field.
                fields.insert("properties".into(), json!({}));
                fields.entry("additionalProperties").or_insert(json!(false));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// Whether a type takes whatever comes.
fn takes_anything(schema: &serde_json::Map<String, Value>) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(true))
}

static BY_NAME: LazyLock<HashMap<(Dialect, &'static str), &'static Method>> =
    LazyLock::new(|| METHODS.iter().map(|method| ((method.dialect, method.name), method)).collect());

pub(crate) fn find(dialect: Dialect, name: &str) -> Option<&'static Method> {
    BY_NAME.get(&(dialect, name)).copied()
}

/// What clients are told that there is: what is served.
pub(crate) fn advertised(dialect: Dialect) -> Vec<&'static str> {
    METHODS.iter().filter(|row| row.dialect == dialect && row.is_served()).map(|row| row.name).collect()
}

/// Checks a call against its row, and makes it. Answers JSON.
pub(crate) async fn call(caller: Caller, request: &Request) -> Result<String, WireError> {
    let dialect = caller.peer.dialect;
    match dialect {
        Dialect::Openfoal => return crate::dialect::openfoal::call(caller, request).await,
        Dialect::Native => return crate::dialect::native::call(caller, request).await,
        Dialect::Openclaw => {}
    }
    let name = request.method.as_str();
    if name == "connect" {
        return Err(WireError::invalid("connect is only valid as the first request"));
    }
    let Some(method) = find(dialect, name) else {
        return Err(WireError::invalid(format!("unknown method: {name}")));
    };
    scope::permit(caller.peer.role, caller.peer.scopes, method.need).map_err(WireError::invalid)?;
    let unnamed = if caller.peer.protocol >= 4 { Unnamed::Ignored } else { Unnamed::Refused };
    let params = request.params.clone().unwrap_or_else(|| json!({}));
    if let Some(problem) = validate::problems(method.schema(), &params, unnamed) {
        return Err(invalid_params(name, &problem));
    }
    make(method, caller, params).await
}

/// Makes a call whose parameters were checked.
pub(crate) async fn make(method: &Method, caller: Caller, params: Value) -> Result<String, WireError> {
    match method.behind {
        Behind::Handler { call: handler } => {
            let keyed = (method.repeat == Repeat::Keyed).then(|| (caller.clone(), params.clone()));
            let call = async {
                fault::pause("gateway.method.called").await;
                handler(caller, params).await
            };
            // Whoever asked has an answer, and nobody else feels it: the panic itself is in the log.
            let call = AssertUnwindSafe(call)
                .catch_unwind()
                .map(|end| end.unwrap_or_else(|_| Err(fault_of_ours(method.name))));
            match keyed {
                Some((caller, params)) => once::once(method, &caller, &params, call).await,
                None => call.await,
            }
        }
        Behind::Nothing => {
            let message = format!("{} is not available in this version", method.name);
            Err(WireError::unavailable(message).with_details(json!({ "code": "NOT_IMPLEMENTED" })))
        }
    }
}

/// What a handler that panicked answers.
fn fault_of_ours(method: &str) -> WireError {
    let message = format!("{method} failed because of a fault in the gateway; its log says where");
    WireError::unavailable(message).with_details(json!({ "code": ErrorCode::Internal }))
}

pub(crate) fn invalid_params(method: &str, problem: &str) -> WireError {
    WireError::invalid(format!("invalid {method} params: {problem}"))
}

/// Reads checked parameters; what a schema cannot say is found here.
pub(crate) fn read<T: DeserializeOwned>(method: &str, params: Value) -> Result<T, WireError> {
    serde_json::from_value(params).map_err(|error| invalid_params(method, &error.to_string()))
}

/// One line a row, for the reference page.
pub fn reference_markdown() -> String {
    use std::fmt::Write as _;
    let mut page = String::from(
        "# Methods of the WebSocket protocol\n\n\
         <!-- Generated by `make generate` from crates/gateway/src/methods/table.rs. Do not edit. -->\n\n\
         What each method needs, whether the same call may be sent again, and what it takes. A parameter with `!` has to be\n\
         there. *Not yet* means that the method is known, is checked, and answers `UNAVAILABLE`. What a result looks like is in\n\
         [methods.ts](methods.ts) and [methods.schema.json](methods.schema.json), by the name in the last column.\n",
    );
    for dialect in [Dialect::Native, Dialect::Openclaw, Dialect::Openfoal] {
        let _ = writeln!(page, "\n## Dialect `{}`\n", dialect.as_str());
        page.push_str("| method | needs | sent again | parameters | answers |\n|---|---|---|---|---|\n");
        for row in METHODS.iter().filter(|row| row.dialect == dialect) {
            let again = match row.repeat {
                Repeat::Harmless => "harmless",
                Repeat::Keyed | Repeat::Run => "same key, same call",
                Repeat::Again => "done again",
            };
            let answers = if row.is_served() { row.result_name() } else { "not yet" };
            let _ = writeln!(
                page,
                "| `{}` | {} | {again} | {} | {answers} |",
                row.name,
                row.need.scope(),
                fields_of(row.schema()),
            );
        }
    }
    page
}

fn fields_of(schema: &Value) -> String {
    if schema.as_object().is_some_and(takes_anything) {
        return "anything, ignored".to_owned();
    }
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let names = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| {
        let mark = if required.contains(&name.as_str()) { "!" } else { "" };
        format!("`{name}`{mark}")
    });
    let fields: Vec<String> = names.collect();
    if fields.is_empty() { "none".to_owned() } else { fields.join(", ") }
}

/// The parameters and results of all methods as one JSON Schema document, by dialect and method. The types of results
/// stand once for each dialect, below `$defs`.
pub fn json_schema() -> Value {
    let mut document = serde_json::Map::new();
    let mut definitions = serde_json::Map::new();
    for dialect in [Dialect::Native, Dialect::Openclaw, Dialect::Openfoal] {
        let mut types = answer_types(dialect);
        let mut methods = serde_json::Map::new();
        for row in METHODS.iter().filter(|row| row.dialect == dialect) {
            let mut method = json!({ "params": row.schema() });
            if let Some(result) = row.answers(&mut types) {
                method["result"] = result;
            }
            methods.insert(row.name.to_owned(), method);
        }
        document.insert(dialect.as_str().to_owned(), Value::Object(methods));
        definitions.insert(dialect.as_str().to_owned(), Value::Object(types.take_definitions(true)));
    }
    document.insert("$defs".to_owned(), Value::Object(definitions));
    Value::Object(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that answer `UNAVAILABLE`. The number may only fall.
    const NOT_YET: usize = 3;
    /// Rows that answer JSON of any kind. The number may only fall.
    const FREE: usize = 0;

    #[test]
    fn every_row_of_our_own_dialect_has_types_and_is_served() {
        let rows: Vec<_> = METHODS.iter().filter(|row| row.dialect == Dialect::Native).collect();
        assert!(rows.len() > 20);
        assert!(rows.iter().all(|row| row.shapes().is_some() && row.is_served() && row.result != "Value"));
    }

    #[test]
    fn every_row_that_is_served_answers_a_type() {
        let free: Vec<_> = METHODS
            .iter()
            .filter(|row| {
                let schema = row.answers(&mut answer_types(row.dialect)).unwrap_or_default();
                row.is_served() && (row.result == "Value" || schema["$ref"].is_null())
            })
            .map(|row| row.name)
            .collect();
        assert_eq!(free.len(), FREE, "may only fall: {free:?}");
    }

    #[test]
    fn a_type_of_an_answer_has_one_name_in_its_dialect() {
        for dialect in [Dialect::Native, Dialect::Openclaw, Dialect::Openfoal] {
            let mut types = answer_types(dialect);
            for row in METHODS.iter().filter(|row| row.dialect == dialect) {
                row.answers(&mut types);
            }
            let twice: Vec<_> = types
                .definitions()
                .keys()
                .filter(|name| name.ends_with(|last: char| last.is_ascii_digit()))
                .collect();
            assert!(twice.is_empty(), "two types have one name: {twice:?}");
        }
    }

    #[test]
    fn fewer_and_fewer_rows_answer_unavailable() {
        let missing: Vec<_> = METHODS.iter().filter(|row| !row.is_served()).map(|row| row.name).collect();
        println!("{} of {} methods answer UNAVAILABLE: {}", missing.len(), METHODS.len(), missing.join(", "));
        assert_eq!(missing.len(), NOT_YET, "record the new number; it may only fall");
    }

    #[test]
    fn a_method_has_one_row_and_every_schema_is_a_closed_object() {
        assert_eq!(BY_NAME.len(), METHODS.len());
        for row in METHODS {
            assert_eq!(row.schema()["type"], "object", "{}", row.name);
            let open = row.params == "About";
            assert_eq!(row.schema()["additionalProperties"], open, "{}", row.name);
        }
    }

    #[test]
    fn a_row_with_a_key_takes_one() {
        for row in METHODS.iter().filter(|row| matches!(row.repeat, Repeat::Keyed | Repeat::Run)) {
            let required = row.schema()["required"].as_array().cloned().unwrap_or_default();
            let key = if row.dialect == Dialect::Native { "key" } else { "idempotencyKey" };
            assert!(required.contains(&json!(key)), "{}", row.name);
        }
    }
}
