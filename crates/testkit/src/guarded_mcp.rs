//! An MCP server that lets in only those who signed in, and the authorization server where one does, at one address.
//!
//! It keeps the standards strictly: PKCE is checked, codes and refresh tokens are taken once, a token is good for the
//! resource it was asked for and for nothing else. [`Whims`] make it refuse, confuse and forget.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tidegate_oauth::form;

use crate::web_server::{Asked, Page, WebServer};

/// What a login may do here.
const READ: &str = "notes.read";
const WRITE: &str = "notes.write";

/// How the server behaves from now on.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing that goes wrong by itself")]
pub struct Whims {
    /// Seconds that an access token is said to last.
    pub lasts: u64,
    /// The person at the browser says no.
    pub declines: bool,
    /// The browser comes back with the state of another login first.
    pub confuses: bool,
    /// The answer names another issuer.
    pub other_issuer: bool,
    /// The metadata of the server names another server.
    pub other_resource: Option<String>,
    /// Clients have to be registered by hand.
    pub closed: bool,
    /// No refresh tokens are given.
    pub forgetful: bool,
    /// What the authorization server says about PKCE.
    pub pkce: Vec<String>,
}

impl Default for Whims {
    fn default() -> Self {
        Self {
            lasts: 3600,
            declines: false,
            confuses: false,
            other_issuer: false,
            other_resource: None,
            closed: false,
            forgetful: false,
            pkce: vec!["S256".to_owned()],
        }
    }
}

#[derive(Default)]
struct Books {
    whims: Whims,
    clients: BTreeMap<String, Vec<String>>,
    /// Codes that were not exchanged yet, with what they were given for.
    codes: BTreeMap<String, Question>,
    /// Access tokens that are good, with the scope of each.
    good: BTreeMap<String, String>,
    /// Refresh tokens that were not used yet, with the scope of each.
    refresh: BTreeMap<String, String>,
    revoked: BTreeSet<String>,
    count: usize,
    calls: usize,
}

#[derive(Clone)]
struct Question {
    client: String,
    redirect: String,
    challenge: String,
    scope: String,
}

/// Both servers. Dropping them closes their port.
pub struct GuardedMcp {
    server: WebServer,
    books: Arc<Mutex<Books>>,
}

impl GuardedMcp {
    pub async fn start() -> Self {
        let books: Arc<Mutex<Books>> = Arc::default();
        let shared = Arc::clone(&books);
        let server = WebServer::answering(move |asked| {
            shared.lock().unwrap_or_else(PoisonError::into_inner).answer(asked)
        });
        Self { server: server.await, books }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server's address.
    pub fn url(&self) -> String {
        self.server.url("/mcp")
    }

    pub fn change(&self, change: impl FnOnce(&mut Whims)) {
        change(&mut self.books().whims);
    }

    /// Registers a client by hand.
    pub fn register(&self, client: &str) {
        self.books().clients.insert(client.to_owned(), Vec::new());
    }

    /// Forgets all access tokens, as if they had ended.
    pub fn end_tokens(&self) {
        self.books().good.clear();
    }

    /// Forgets everything that was given out.
    pub fn end_logins(&self) {
        let mut books = self.books();
        books.good.clear();
        books.refresh.clear();
    }

    /// How often a tool was really called.
    pub fn calls(&self) -> usize {
        self.books().calls
    }

    pub fn revoked(&self) -> usize {
        self.books().revoked.len()
    }

    /// How many requests for tokens there were, of this kind of grant.
    pub fn grants(&self, kind: &str) -> usize {
        let is = |asked: &&Asked| asked.path == "/token" && field(asked, "grant_type") == kind;
        self.server.asked().iter().filter(is).count()
    }

    /// Everything that was asked at this path.
    pub fn asked(&self, path: &str) -> Vec<Asked> {
        self.server.asked().into_iter().filter(|asked| asked.path == path).collect()
    }

    /// Everything that must never be printed.
    pub fn secrets(&self) -> Vec<String> {
        let books = self.books();
        books.good.keys().chain(books.refresh.keys()).cloned().collect()
    }
}

fn field(asked: &Asked, name: &str) -> String {
    form::value(&String::from_utf8_lossy(&asked.body), name).unwrap_or_default()
}

fn json_page(status: u16, body: &Value) -> Page {
    Page::new(status, "application/json", body.to_string())
}

fn refused(status: u16, error: &str) -> Page {
    json_page(status, &json!({ "error": error }))
}

impl Books {
    fn answer(&mut self, asked: &Asked) -> Page {
        let base = format!("http://{}", asked.headers.get("host").map_or("", String::as_str));
        match (asked.method.as_str(), asked.path.as_str()) {
            ("POST", "/mcp") => self.mcp(asked, &base),
            ("GET", "/mcp") => refused(405, "no_stream"),
            ("GET", "/.well-known/oauth-protected-resource/mcp") => self.resource(&base),
            ("GET", "/.well-known/oauth-authorization-server/as") => self.authority(&base),
            ("POST", "/register") => self.take_client(asked),
            ("GET", "/authorize") => self.ask_person(asked, &base),
            ("POST", "/token") => self.tokens(asked, &base),
            ("POST", "/revoke") => {
                self.refresh.remove(&field(asked, "token"));
                self.revoked.insert(field(asked, "token"));
                Page::new(200, "text/plain", "")
            }
            _ => refused(404, "not_found"),
        }
    }

    fn resource(&self, base: &str) -> Page {
        let own = format!("{base}/mcp");
        let name = self.whims.other_resource.clone().unwrap_or(own);
        json_page(
            200,
            &json!({
                "resource": name, "authorization_servers": [format!("{base}/as")],
                "scopes_supported": [READ, WRITE],
            }),
        )
    }

    fn authority(&self, base: &str) -> Page {
        let mut said = json!({
            "issuer": format!("{base}/as"),
            "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "revocation_endpoint": format!("{base}/revoke"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": self.whims.pkce,
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": true,
        });
        if !self.whims.closed {
            said["registration_endpoint"] = format!("{base}/register").into();
        }
        json_page(200, &said)
    }

    fn take_client(&mut self, asked: &Asked) -> Page {
        let wish: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
        let redirects: Vec<String> =
            serde_json::from_value(wish["redirect_uris"].clone()).unwrap_or_default();
        if self.whims.closed || redirects.is_empty() || wish["token_endpoint_auth_method"] != "none" {
            return refused(400, "invalid_client_metadata");
        }
        self.count += 1;
        let id = format!("client-{}", self.count);
        self.clients.insert(id.clone(), redirects);
        json_page(201, &json!({ "client_id": id, "token_endpoint_auth_method": "none" }))
    }

    /// The page on which a person would say yes or no.
    fn ask_person(&mut self, asked: &Asked, base: &str) -> Page {
        let text = |name: &str| asked.query(name).unwrap_or_default().to_owned();
        let (client, redirect) = (text("client_id"), text("redirect_uri"));
        let known =
            self.clients.get(&client).is_some_and(|known| known.is_empty() || known.contains(&redirect));
        let fine = known
            && text("response_type") == "code"
            && text("code_challenge_method") == "S256"
            && text("resource") == format!("{base}/mcp");
        if !fine {
            return Page::new(400, "text/plain", "this question makes no sense");
        }
        self.count += 1;
        let code = format!("code-{}", self.count);
        let (challenge, scope) = (text("code_challenge"), text("scope"));
        self.codes.insert(code.clone(), Question { client, redirect: redirect.clone(), challenge, scope });
        let issuer = if self.whims.other_issuer { "https://evil.example" } else { &format!("{base}/as") };
        let state = if self.whims.confuses { "another-login".to_owned() } else { text("state") };
        let (name, value) =
            if self.whims.declines { ("error", "access_denied") } else { ("code", code.as_str()) };
        let answer = form::encode(&[(name, value), ("state", &state), ("iss", issuer)]);
        Page::redirect(302, &format!("{redirect}?{answer}"))
    }

    fn tokens(&mut self, asked: &Asked, base: &str) -> Page {
        if field(asked, "resource") != format!("{base}/mcp") {
            return refused(400, "invalid_target");
        }
        if !self.clients.contains_key(&field(asked, "client_id")) {
            return refused(401, "invalid_client");
        }
        let scope = match field(asked, "grant_type").as_str() {
            "authorization_code" => {
                let Some(question) = self.codes.remove(&field(asked, "code")) else {
                    return refused(400, "invalid_grant");
                };
                let digest = Sha256::digest(field(asked, "code_verifier"));
                let proven = URL_SAFE_NO_PAD.encode(digest) == question.challenge
                    && field(asked, "redirect_uri") == question.redirect
                    && field(asked, "client_id") == question.client;
                if !proven {
                    return refused(400, "invalid_grant");
                }
                question.scope
            }
            // Each is good once: what was used is gone.
            "refresh_token" => match self.refresh.remove(&field(asked, "refresh_token")) {
                Some(scope) => scope,
                None => return refused(400, "invalid_grant"),
            },
            _ => return refused(400, "unsupported_grant_type"),
        };
        self.count += 1;
        let (access, refresh) = (format!("access-{}", self.count), format!("refresh-{}", self.count));
        self.good.insert(access.clone(), scope.clone());
        let mut answer = json!({
            "access_token": access, "token_type": "Bearer", "expires_in": self.whims.lasts, "scope": scope,
        });
        if !self.whims.forgetful {
            self.refresh.insert(refresh.clone(), scope);
            answer["refresh_token"] = refresh.into();
        }
        json_page(200, &answer)
    }

    fn mcp(&mut self, asked: &Asked, base: &str) -> Page {
        let metadata = format!("{base}/.well-known/oauth-protected-resource/mcp");
        let shown = asked.headers.get("authorization").and_then(|shown| shown.strip_prefix("Bearer "));
        let Some(scope) = shown.and_then(|token| self.good.get(token)).cloned() else {
            let challenge = format!(r#"Bearer resource_metadata="{metadata}", scope="{READ}""#);
            return Page::with_headers(401, &[("www-authenticate", &challenge)], "who are you?");
        };
        let message: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
        let Some(id) = message.get("id") else { return Page::new(202, "text/plain", "") };
        if message["params"]["name"] == "write" && !scope.split(' ').any(|word| word == WRITE) {
            let challenge = format!(
                r#"Bearer error="insufficient_scope", scope="{WRITE}", resource_metadata="{metadata}""#
            );
            return Page::with_headers(403, &[("www-authenticate", &challenge)], "not you");
        }
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"},
            }),
            "tools/list" => {
                let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
                json!({ "tools": [tool("read"), tool("write")] })
            }
            "tools/call" => {
                self.calls += 1;
                json!({"content": [{"type": "text", "text": format!("done, {scope}")}]})
            }
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                return json_page(200, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        };
        json_page(200, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }
}
