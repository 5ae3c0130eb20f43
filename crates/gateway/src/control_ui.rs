//! Another page beside ours: the files of a folder that the configuration names, such as OpenClaw's Control UI, below
//! `/control-ui/`.
//!
//! Files are read when they are asked for, and nothing outside the folder is. An address that is no file is one of the
//! page's own, and gets the page. It owns no state and never writes.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse as _, Redirect, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};
use tidegate_protocol::ErrorCode;

use crate::answer::{Answered, Refusal};
use crate::gate::Gate;

/// Where the page is.
const MOUNT: &str = "/control-ui";
const INDEX: &str = "index.html";
/// Folders of the home with what is nobody else's business.
const OWN_FOLDERS: [&str; 9] = [
    "agents",
    "backups",
    "channels",
    "credentials",
    "logs",
    "revisions",
    "sandboxes",
    "service",
    "workspace",
];
/// The largest file that is served.
const LARGEST: u64 = 32 << 20;

/// What follows the mount in a path; `None` for every other path.
pub(crate) fn below(path: &str) -> Option<&str> {
    let rest = path.strip_prefix(MOUNT)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

pub(crate) async fn answer(gate: &Gate, below: &str, method: &Method) -> Answered {
    let Some(folder) = &gate.shared.control_ui else {
        // Without a folder of its own it leads to our page.
        return match below {
            "" | "/" => Ok(Redirect::to("/").into_response()),
            _ => Err(nothing(below)),
        };
    };
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Err(Refusal::new(ErrorCode::MethodNotAllowed, "the page can only be read"));
    }
    let Some(rest) = below.strip_prefix('/') else {
        return Ok(Redirect::to(&format!("{MOUNT}/")).into_response());
    };
    let (folder, wanted) = (folder.clone(), rest.to_owned());
    let home = gate.engine().home().root().to_owned();
    let reading =
        tidegate_runtime::spawn_blocking("gateway.control-ui", move || read(&folder, &home, &wanted));
    match reading.join().await {
        Ok(Ok(Found::Page(html))) => Ok(page(&html)),
        Ok(Ok(Found::File { kind, keep, bytes })) => {
            Ok(([(CONTENT_TYPE, kind), (CACHE_CONTROL, keep)], Body::from(bytes)).into_response())
        }
        Ok(Ok(Found::Nothing)) => Err(nothing(below)),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the folder of gateway.controlUi.root cannot be read");
            let message = "the folder in gateway.controlUi.root is no page: it needs an index.html that can be read, and \
                           must not hold the gateway's own files";
            Err(Refusal::new(ErrorCode::Unavailable, message))
        }
        Err(end) => Err(Refusal::new(ErrorCode::Internal, end.to_string())),
    }
}

fn nothing(below: &str) -> Refusal {
    Refusal::new(ErrorCode::NotFound, format!("there is nothing at {MOUNT}{below}"))
}

enum Found {
    Page(String),
    File { kind: &'static str, keep: &'static str, bytes: Vec<u8> },
    Nothing,
}

fn read(folder: &Path, home: &Path, wanted: &str) -> io::Result<Found> {
    let root = folder.canonicalize()?;
    let index = inside(&root, INDEX).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    if holds_secrets(&root, home)? {
        return Err(io::Error::other("the folder holds the gateway's own files"));
    }
    let file = if is_plain(wanted) { inside(&root, wanted) } else { None };
    if let Some(file) = file.filter(|file| *file != root.join(INDEX)) {
        let kind = kind(&file);
        // Vite puts a hash of the content into the names of its assets.
        let keep =
            if wanted.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
        return Ok(Found::File { kind, keep, bytes: bytes_of(&file)? });
    }
    // A name with an ending is a file that is not there; everything else is an address inside the page.
    let last = wanted.rsplit('/').next().unwrap_or_default();
    if Path::new(last).extension().is_some() && last != INDEX {
        return Ok(Found::Nothing);
    }
    let html = String::from_utf8(bytes_of(&index)?).map_err(io::Error::other)?;
    Ok(Found::Page(mounted(&html)))
}

/// Whether the folder is, contains or lies in one that is the gateway's own: whoever asks sees all of it.
fn holds_secrets(root: &Path, home: &Path) -> io::Result<bool> {
    let home = home.canonicalize()?;
    let own = root.strip_prefix(&home).ok().and_then(|rest| rest.components().next());
    let is_page = |name: &std::ffi::OsStr| !OWN_FOLDERS.iter().any(|own| name == *own);
    Ok(home.starts_with(root) || own.is_some_and(|first| !is_page(first.as_os_str())))
}

/// Whether a path is a plain name below the folder: no dots that lead out, nothing encoded, nothing hidden.
fn is_plain(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'@' | b'+');
    path.split('/').all(|name| !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain))
}

/// The file of that name, if it is one and does not lie elsewhere through a link.
fn inside(root: &Path, name: &str) -> Option<PathBuf> {
    let file = root.join(name).canonicalize().ok()?;
    (file.starts_with(root) && file.is_file()).then_some(file)
}

fn bytes_of(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(file)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("a file of the page is too large"));
    }
    Ok(bytes)
}

/// The page knows where it is, from whichever of its addresses it was loaded.
fn mounted(html: &str) -> String {
    let here = format!("<html data-openclaw-control-ui-base-path=\"{MOUNT}\"");
    html.replacen("<html", &here, 1).replace("=\"./", &format!("=\"{MOUNT}/"))
}

fn page(html: &str) -> Response {
    let policy = HeaderValue::from_str(&policy(html)).ok();
    let mut response =
        ([(CONTENT_TYPE, "text/html; charset=utf-8"), (CACHE_CONTROL, "no-cache")], html.to_owned())
            .into_response();
    if let Some(policy) = policy {
        response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// What the page may load: its own files, and the scripts that stand in it as they stand there now.
fn policy(html: &str) -> String {
    let mut scripts = vec!["'self'".to_owned()];
    scripts.extend(
        inline_scripts(html)
            .map(|script| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(script)))),
    );
    let scripts = scripts.join(" ");
    format!(
        "default-src 'self'; script-src {scripts}; style-src 'self' 'unsafe-inline'; \
         img-src 'self' data: blob:; media-src 'self' data: blob:; font-src 'self' data:; \
         connect-src 'self' data: blob:; worker-src 'self'; frame-ancestors 'none'; base-uri 'none'; \
         form-action 'self'; object-src 'none'"
    )
}

fn inline_scripts(html: &str) -> impl Iterator<Item = &str> {
    html.split("<script").skip(1).filter_map(|part| {
        let (tag, rest) = part.split_once('>')?;
        let script = rest.split_once("</script>")?.0;
        (!tag.contains("src=")).then_some(script)
    })
}

fn kind(file: &Path) -> &'static str {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("wasm") => "application/wasm",
        Some("json" | "map") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_looked_for() {
        for (path, plain) in [
            ("assets/index-A_1.js", true),
            ("favicon.svg", true),
            ("", false),
            ("../config.json5", false),
            ("assets/../../x", false),
            ("assets//x", false),
            (".git/config", false),
            ("assets/.env", false),
            ("a%2e%2e/x", false),
            ("a\\b", false),
            ("chat/agent:main:main", false),
        ] {
            assert_eq!(is_plain(path), plain, "{path:?}");
        }
    }

    #[test]
    fn only_the_pages_own_inline_scripts_may_run() {
        let html = "<html lang=\"en\"><script>a()</script><script src=\"./x.js\"></script></html>";
        let page = mounted(html);
        assert_eq!(
            page,
            "<html data-openclaw-control-ui-base-path=\"/control-ui\" lang=\"en\"><script>a()</script>\
             <script src=\"/control-ui/x.js\"></script></html>"
        );
        assert_eq!(inline_scripts(&page).collect::<Vec<_>>(), ["a()"]);
        let hash = BASE64_STANDARD.encode(Sha256::digest("a()"));
        assert!(policy(&page).contains(&format!("script-src 'self' 'sha256-{hash}'; ")));
    }

    #[test]
    fn the_mount_is_a_whole_name() {
        assert_eq!(below("/control-ui"), Some(""));
        assert_eq!(below("/control-ui/chat"), Some("/chat"));
        assert_eq!(below("/control-uix"), None);
    }
}
