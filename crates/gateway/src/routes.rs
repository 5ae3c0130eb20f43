//! The table of addresses: each with what it wants to see before its handler runs.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing;
use tidegate_protocol::ErrorCode;

use crate::access::{Access, Guard, door, guard};
use crate::answer::Refusal;
use crate::gate::Gate;
use crate::{api, openai, openapi, page, ws};

/// An address of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// In lower case.
    pub method: &'static str,
    pub path: &'static str,
    pub access: Access,
}

macro_rules! routes {
    ($($access:ident $method:ident $path:literal => $handler:path;)+) => {
        /// Every address that has a handler. Whatever else there is, is a file of the page.
        pub const ROUTES: &[Route] =
            &[$(Route { method: stringify!($method), path: $path, access: Access::$access }),+];

        fn table(gate: &Gate) -> Router<Gate> {
            Router::new()$(.route(
                $path,
                routing::$method($handler)
                    .route_layer(from_fn_with_state(Guard { gate: gate.clone(), access: Access::$access }, guard)),
            ))+
        }
    };
}

routes! {
    Open get "/healthz" => api::health::live;
    Open get "/livez" => api::health::live;
    Open get "/readyz" => api::health::ready;
    Open get "/health" => api::health::health;
    Open get "/control-ui" => page::control_ui;
    Open get "/control-ui/" => page::control_ui;
    Open get "/login" => api::login::follow_link;
    Open post "/api/v1/login" => api::login::log_in;
    Page post "/api/v1/logout" => api::login::log_out;
    Program post "/api/v1/login-links" => api::login::make_link;
    Page get "/api/v1/me" => api::status::me;
    Page get "/api/v1/status" => api::status::status;
    Page get "/api/v1/channels" => api::status::channels;
    Page get "/api/v1/services" => api::status::services;
    Control post "/api/v1/services/{name}/restart" => api::status::restart_service;
    Page get "/api/v1/sessions" => api::sessions::list;
    Page delete "/api/v1/sessions/{name}" => api::sessions::delete;
    Page get "/api/v1/sessions/{name}/branches" => api::branches::list;
    Page post "/api/v1/sessions/{name}/fork" => api::branches::fork;
    Page post "/api/v1/sessions/{name}/title" => api::branches::name;
    Page post "/api/v1/sessions/{name}/messages" => api::messages::post;
    Page get "/api/v1/sessions/{name}/events" => api::feed::events;
    Page post "/api/v1/ask" => api::ask::ask;
    Page get "/api/v1/socket" => ws::native;
    Page get "/api/v1/openapi.json" => openapi::document;
    Page get "/api/v1/config" => api::config::show;
    Page patch "/api/v1/config" => api::config::patch;
    Page get "/api/v1/config/schema" => api::config::schema;
    Page get "/api/v1/audit" => api::audit::list;
    Page get "/api/v1/runs" => api::runs::list;
    Page get "/api/v1/runs/{id}" => api::runs::show;
    Page post "/api/v1/runs/{id}/abort" => api::runs::abort;
    Page post "/api/v1/runs/stop" => api::runs::stop;
    Page post "/api/v1/outbox/{id}/retry" => api::outbox::retry;
    Page post "/api/v1/outbox/{id}/drop" => api::outbox::give_up;
    Page post "/api/v1/models/test" => api::models::test;
    Control post "/api/v1/tools/invoke" => api::tools::invoke;
    Page get "/api/v1/approvals" => api::approvals::list;
    Page get "/api/v1/approvals/{id}" => api::approvals::show;
    Page post "/api/v1/approvals/{id}" => api::approvals::answer;
    Page get "/api/v1/allowlist" => api::approvals::rules;
    Control post "/api/v1/allowlist" => api::approvals::allow;
    Page delete "/api/v1/allowlist/{id}" => api::approvals::remove_rule;
    Control post "/api/v1/stop" => api::status::stop;
    Page get "/api/v1/mcp/servers" => api::mcp::servers;
    Program post "/tools/invoke" => api::invoke::invoke;
    Program post "/mcp" => api::mcp::answer;
    Program get "/mcp" => api::mcp::answer;
    Program delete "/mcp" => api::mcp::answer;
    Program get "/v1/models" => openai::models;
    Program get "/v1/models/{*id}" => openai::model;
    Program post "/v1/embeddings" => openai::embeddings;
    Program post "/v1/responses" => openai::responses;
    Program post "/responses" => openai::responses;
    Program post "/v1/chat/completions" => openai::completions;
}

pub(crate) fn router(gate: Gate) -> Router {
    table(&gate)
        .method_not_allowed_fallback(wrong_method)
        .fallback(ws::socket_or_page)
        .layer(from_fn_with_state(gate.clone(), door))
        .with_state(gate)
}

async fn wrong_method() -> Refusal {
    Refusal::new(ErrorCode::MethodNotAllowed, "this address does not take that method")
}
