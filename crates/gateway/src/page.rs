//! The page: files embedded when the program was built, and what stands in their place when there were none.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use tidegate_protocol::ErrorCode;
use tidegate_runtime::catalogue::{Language, Text};

use crate::answer::{Answered, Refusal, language};
use crate::gate::Gate;
use crate::{control_ui, hooks, openai, texts};

/// A file of the page.
struct File {
    /// From the root, without the first slash.
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/page.rs"));

const HTML: &str = "text/html; charset=utf-8";

/// Whatever no route has: a file of the page, or nothing.
#[allow(clippy::unused_async, reason = "the shape of a handler")]
pub(crate) async fn page(State(gate): State<Gate>, request: Request) -> Answered {
    if let Some(hooks) = &gate.shared.hooks
        && let Some(name) = hooks.below(request.uri().path()).map(str::to_owned)
    {
        return Ok(hooks::receive(&gate, hooks, &name, request).await);
    }
    let path = request.uri().path();
    if let Some(below) = control_ui::below(path) {
        return control_ui::answer(&gate, below, request.method()).await;
    }
    let nothing = || Refusal::new(ErrorCode::NotFound, format!("there is nothing at {path}"));
    if !gate.shared.options.page || path.starts_with("/api/") || openai::is_its_path(path) {
        return Err(nothing());
    }
    let wanted = if path == "/" { "index.html" } else { path.trim_start_matches('/') };
    let file = FILES.iter().find(|file| file.path == wanted);
    let notice = file.is_none() && path == "/" && FILES.is_empty();
    if file.is_none() && !notice {
        return Err(nothing());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Refusal::new(ErrorCode::MethodNotAllowed, "the page can only be read"));
    }
    let Some(file) = file else {
        return Ok(notice_page(language(request.headers())));
    };
    // Vite puts a hash of the content into the names of its assets.
    let keep =
        if file.path.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    Ok(([(CONTENT_TYPE, file.kind), (CACHE_CONTROL, keep)], Body::from(file.bytes)).into_response())
}

fn notice_page(language: Language) -> Response {
    let body = html(language, texts::NOTICE_TITLE, texts::NOTICE_BODY, None);
    ([(CONTENT_TYPE, HTML)], body).into_response()
}

/// The page for a login that failed.
pub(crate) fn login_page(headers: &HeaderMap, status: StatusCode, body: Text) -> Response {
    let language = language(headers);
    let body = html(language, texts::LOGIN_TITLE, body, Some(texts::LOGIN_HOME));
    (status, [(CONTENT_TYPE, HTML)], body).into_response()
}

fn html(language: Language, title: Text, body: Text, home: Option<Text>) -> String {
    let tag = match language {
        Language::English => "en",
        Language::Chinese => "zh-CN",
    };
    let (title, body) = (title.in_language(language), body.in_language(language));
    let home = home
        .map(|text| format!("<p><a href=\"/\">{}</a></p>", text.in_language(language)))
        .unwrap_or_default();
    format!(
        "<!doctype html>\n<html lang=\"{tag}\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title></head><body><h1>{title}</h1><p>{body}</p>{home}</body></html>\n"
    )
}
