//! The OpenAPI document of our own interface, made from the types that the handlers read and write.
//!
//! It says of each address what it takes and gives; that every address of the interface is in it, and no other, is
//! checked against the table of routes. The command line's own addresses (control socket) are left out, and so is what
//! streams without an end.

use std::sync::OnceLock;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};
use tidegate_protocol::api;

use crate::answer::Answered;
use crate::gate::{Gate, VERSION};

/// What a program sends or gets.
type Shape = fn(&mut SchemaGenerator) -> Value;

/// One address.
struct Row {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    query: &'static [Query],
    takes: Option<Shape>,
    /// The status of a success, and what comes with it.
    gives: (u16, Option<Shape>),
}

struct Query {
    name: &'static str,
    about: &'static str,
    shape: fn() -> Value,
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

const NONE: &[Query] = &[];
const RUNS: &[Query] = &[
    Query { name: "limit", about: "How many at most.", shape: limit },
    Query { name: "session", about: "Only of this conversation.", shape: text },
    Query {
        name: "state",
        about: "Only in this state.",
        shape: || json!({"type": "string", "enum": tidegate_protocol::RunState::KNOWN}),
    },
];
const AUDIT: &[Query] = &[Query { name: "limit", about: "How many at most.", shape: limit }];

fn limit() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": 500})
}

fn text() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 512})
}

macro_rules! rows {
    ($($method:ident $path:literal $summary:literal $query:ident ($($takes:ty)?) => $status:literal $($gives:ty)?;)+) => {
        &[$(Row {
            method: stringify!($method),
            path: $path,
            summary: $summary,
            query: $query,
            takes: rows!(@shape $($takes)?),
            gives: ($status, rows!(@shape $($gives)?)),
        }),+]
    };
    (@shape) => { None };
    (@shape $type:ty) => { Some(of::<$type>) };
}

const ROWS: &[Row] = rows! {
    get "/healthz" "Whether the process lives." NONE () => 200 Value;
    get "/readyz" "Whether it can work." NONE () => 200 Value;
    get "/health" "Both in one answer." NONE () => 200 Value;
    get "/api/v1/openapi.json" "This document." NONE () => 200 Value;
    get "/api/v1/me" "Who is logged in where." NONE () => 200 api::Me;
    get "/api/v1/status" "What the gateway is and does." NONE () => 200 api::Status;
    get "/api/v1/channels" "Chat networks and how they stand." NONE () => 200 Value;
    get "/api/v1/services" "Programs beside the gateway and how they stand." NONE () => 200 Value;
    get "/api/v1/mcp/servers" "Servers of the Model Context Protocol and how they stand." NONE () => 200 Value;
    get "/api/v1/config" "The configuration, secrets hidden." NONE () => 200 api::ConfigView;
    patch "/api/v1/config" "Change the configuration file." NONE (api::PatchConfig) => 200 api::ConfigPatched;
    get "/api/v1/config/schema" "A JSON Schema of the configuration." NONE () => 200 Value;
    get "/api/v1/audit" "Who did what, the newest first." AUDIT () => 200 api::AuditList;
    get "/api/v1/sessions" "Conversations, the last used first." NONE () => 200 api::SessionList;
    delete "/api/v1/sessions/{name}" "Take a conversation away." NONE () => 200 api::Deleted;
    get "/api/v1/sessions/{name}/branches" "The logs of a conversation." NONE () => 200 api::BranchList;
    post "/api/v1/sessions/{name}/fork" "Make a log that shares its beginning." NONE (api::ForkSession) => 200 api::Forked;
    post "/api/v1/sessions/{name}/title" "Name a conversation." NONE (api::NameSession) => 204;
    post "/api/v1/sessions/{name}/messages" "Say something in a conversation." NONE (api::PostMessage) => 202 api::Posted;
    get "/api/v1/runs" "Runs, the newest first." RUNS () => 200 api::RunList;
    get "/api/v1/runs/{id}" "One run with its answer." NONE () => 200 api::RunView;
    post "/api/v1/runs/{id}/abort" "End a run." NONE () => 204;
    post "/api/v1/runs/stop" "End all runs that fit." NONE (api::StopRuns) => 200 api::StoppedRuns;
    post "/api/v1/outbox/{id}/retry" "Send a message once more." NONE () => 200 api::SendDecision;
    post "/api/v1/outbox/{id}/drop" "Give a message up." NONE () => 200 api::SendDecision;
    post "/api/v1/models/test" "Ask a model something tiny." NONE (api::TestModel) => 200 api::ModelTested;
    get "/api/v1/approvals" "Questions to people." NONE () => 200 api::ApprovalList;
    get "/api/v1/approvals/{id}" "One question." NONE () => 200 api::ApprovalView;
    post "/api/v1/approvals/{id}" "Answer it." NONE (api::AnswerApproval) => 200 api::ApprovalAnswered;
    get "/api/v1/allowlist" "Rules that were saved with answers." NONE () => 200 api::AllowRuleList;
    delete "/api/v1/allowlist/{id}" "Take a rule away." NONE () => 200 Value;
};

pub(crate) async fn document(State(_gate): State<Gate>) -> Answered {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| openapi().to_string());
    Ok(([(CONTENT_TYPE, "application/json")], text.as_str()).into_response())
}

/// The document.
pub fn openapi() -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let failure = of::<api::Failure>(&mut generator);
    let mut paths: Map<String, Value> = Map::new();
    for row in ROWS {
        let operation = operation(row, &failure, &mut generator);
        let path = paths.entry(row.path).or_insert_with(|| json!({}));
        path[row.method] = operation;
    }
    let schemas: Map<String, Value> = generator.take_definitions(true).into_iter().collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate", "version": VERSION, "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "The management side of a gateway. Programs send the token of the home.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn operation(row: &Row, failure: &Value, generator: &mut SchemaGenerator) -> Value {
    let in_path = row.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> =
        in_path.map(|name| json!({"name": name, "in": "path", "required": true, "schema": text()})).collect();
    parameters.extend(row.query.iter().map(|query| {
        json!({
            "name": query.name, "in": "query", "required": false, "description": query.about,
            "schema": (query.shape)(),
        })
    }));
    let (status, gives) = row.gives;
    let mut success = json!({"description": "It is done."});
    if let Some(shape) = gives {
        success["content"] = content(&shape(generator));
    }
    let refusal = json!({"description": "Why not, and how to mend it.", "content": content(failure)});
    let mut operation = json!({
        "summary": row.summary,
        "operationId": operation_id(row),
        "parameters": parameters,
        "responses": {status.to_string(): success, "default": refusal},
    });
    if let Some(shape) = row.takes {
        operation["requestBody"] = json!({"required": true, "content": content(&shape(generator))});
    }
    if !row.path.starts_with("/api/") {
        operation["security"] = json!([]);
    }
    operation
}

fn content(schema: &Value) -> Value {
    json!({"application/json": {"schema": schema}})
}

fn operation_id(row: &Row) -> String {
    let words = row.path.trim_start_matches("/api/v1").split(['/', '.']).filter(|word| !word.is_empty());
    let words = words.map(|word| word.trim_matches(['{', '}']));
    std::iter::once(row.method).chain(words).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    /// Addresses of the interface that the document does not describe, and why.
    const LEFT_OUT: &[(&str, &str)] = &[
        ("/api/v1/login", "for browsers"),
        ("/api/v1/logout", "for browsers"),
        ("/api/v1/login-links", "for browsers"),
        ("/api/v1/ask", "a stream of lines"),
        ("/api/v1/sessions/{name}/events", "a stream of events"),
        ("/api/v1/socket", "a WebSocket"),
        ("/api/v1/services/{name}/restart", "through the control socket only"),
        ("/api/v1/tools/invoke", "through the control socket only"),
        ("/api/v1/stop", "through the control socket only"),
    ];

    #[test]
    fn every_address_of_the_interface_is_described_or_left_out_for_a_reason() {
        let described =
            |method: &str, path: &str| ROWS.iter().any(|row| row.method == method && row.path == path);
        for route in ROUTES.iter().filter(|route| route.path.starts_with("/api/")) {
            let left_out = LEFT_OUT.iter().any(|(path, _)| *path == route.path);
            let control = route.access == crate::Access::Control;
            assert!(
                described(route.method, route.path) != (left_out || control),
                "{} {}",
                route.method,
                route.path
            );
        }
        for row in ROWS {
            let exists = ROUTES.iter().any(|route| route.method == row.method && route.path == row.path);
            assert!(exists, "{} {} has no handler", row.method, row.path);
        }
    }

    #[test]
    fn every_reference_of_the_document_leads_somewhere() {
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(map) => {
                    found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    map.values().for_each(|value| references(value, found));
                }
                Value::Array(list) => list.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let document = openapi();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}
