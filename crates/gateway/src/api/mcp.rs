//! Our tools and conversations for programs that speak the Model Context Protocol.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;

use crate::answer::{Answered, json};
use crate::gate::Gate;

pub(crate) async fn answer(State(gate): State<Gate>, request: Request) -> Response {
    gate.engine().mcp().answer(request).await.map(Body::new)
}

/// How it stands with the servers whose tools agents use.
pub(crate) async fn servers(State(gate): State<Gate>) -> Answered {
    json(&gate.engine().mcp_servers())
}

/// What those servers say about their tools, so that no other process has to start them to know.
pub(crate) async fn tools(State(gate): State<Gate>) -> Answered {
    json(&gate.engine().mcp_listings().await)
}
