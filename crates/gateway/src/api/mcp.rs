//! Our tools and conversations for programs that speak the Model Context Protocol.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;

use crate::gate::Gate;

pub(crate) async fn answer(State(gate): State<Gate>, request: Request) -> Response {
    gate.engine().mcp().answer(request).await.map(Body::new)
}
