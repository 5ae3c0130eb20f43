//! The server proper: accepts connections, notes each request, finds its turn, and answers.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tidegate_runtime::{Clock as _, Shutdown, SystemClock};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::account::{Accounts, Told};
use super::body::{Connection, Reply};
use super::embed;
use super::format::{Delivery, Format, Frame, Refused};
use super::obey::obeyed;
use super::play;
use super::record::{Log, Presence, Recorded};
use super::route::{self, Route, last_words, route};
use super::script::Script;
use super::turn::{Kind, Refusal, Step, Turn};

/// Pieces that a turn may be ahead of its client.
const AHEAD: usize = 64;

/// What every connection shares.
pub(crate) struct State {
    pub(crate) base_url: String,
    pub(crate) log: Arc<Log>,
    pub(crate) script: Mutex<Script>,
    pub(crate) accounts: Mutex<Accounts>,
    pub(crate) models: Mutex<Vec<String>>,
    /// The mark of [`super::ModelServer::obey`], if it does.
    pub(crate) obeys: Mutex<Option<String>>,
    /// Answers so far; their ids are made of it.
    answers: AtomicUsize,
}

impl State {
    pub(crate) fn new(base_url: String) -> Self {
        Self {
            base_url,
            log: Arc::default(),
            script: Mutex::default(),
            accounts: Mutex::default(),
            models: Mutex::new(vec!["tide-large".to_owned(), "tide-small".to_owned()]),
            obeys: Mutex::default(),
            answers: AtomicUsize::new(0),
        }
    }
}

/// A test that panicked while it held one of these has failed already.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves until it is told to stop; then every connection is dropped where it is.
pub(crate) async fn serve(listener: TcpListener, state: Arc<State>, shutdown: Shutdown) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shutdown.requested() => return,
        };
        let Ok((stream, _peer)) = accepted else { continue };
        // Pieces go out as they are, not when there are enough of them.
        let _ = stream.set_nodelay(true);
        let reset = Arc::new(AtomicBool::new(false));
        let connection = TokioIo::new(Connection::new(stream, reset.clone()));
        let (state, shutdown) = (state.clone(), shutdown.clone());
        tidegate_runtime::spawn("model server connection", async move {
            let service = service_fn(|request| answer(state.clone(), reset.clone(), request));
            let serving = hyper::server::conn::http1::Builder::new().serve_connection(connection, service);
            tokio::select! {
                // A client that is gone is in the log.
                _ = serving => {}
                () = shutdown.requested() => {}
            }
        });
    }
}

/// A request on its way to an answer.
struct Exchange {
    state: Arc<State>,
    request: Recorded,
    presence: Presence,
    reset: Arc<AtomicBool>,
}

async fn answer(
    state: Arc<State>,
    reset: Arc<AtomicBool>,
    request: Request<Incoming>,
) -> io::Result<Response<Reply>> {
    let request = read(request).await?;
    let presence = state.log.note(request.clone());
    let exchange = Exchange { state, request, presence, reset };
    let route = route(&exchange.request);
    let model = match &route {
        Route::Answer { model, .. } | Route::Embed { model, .. } => model.as_str(),
        _ => "",
    };
    let any = matches!(route, Route::Answer { .. });
    let turn = lock(&exchange.state.script).take(&[model, &exchange.request.path], any);
    let format = match &route {
        Route::Answer { format, .. } | Route::Embed { format, .. } | Route::Models(format) => *format,
        Route::Account(_) | Route::Nothing => Format::Completions,
    };
    if let Some(turn) = &turn
        && let Some(instead) = instead(turn, format, &route).await
    {
        return exchange.reply(instead.status, instead.content_type, &instead.headers, instead.body);
    }
    match route {
        Route::Answer { format, model, delivery } => {
            let mark = lock(&exchange.state.obeys).clone();
            let body = &exchange.request.body;
            let own = || match mark {
                Some(mark) => obeyed(body, &mark, exchange.state.log.requests().len()),
                None => Turn::say(&format!("You said: {}", last_words(body))),
            };
            let turn = turn.unwrap_or_else(own);
            exchange.play(turn, format, model, delivery)
        }
        Route::Embed { format, model } => {
            let body = embed::embed(format, &model, &exchange.request.body, turn.as_ref());
            exchange.json(200, &body)
        }
        Route::Models(format) => {
            let body = embed::models(format, &lock(&exchange.state.models));
            exchange.json(200, &body)
        }
        Route::Account(what) => {
            let now_s = SystemClock.now_ms() / 1000;
            let told = lock(&exchange.state.accounts).answer(
                what,
                &exchange.request,
                &exchange.state.base_url,
                now_s,
            );
            match told {
                Told::Json(status, body) => exchange.json(status, &body),
                Told::Redirect(target) => {
                    exchange.reply(302, "text/plain", &[("location".to_owned(), target)], Vec::new())
                }
            }
        }
        Route::Nothing => {
            let path = exchange.request.path.clone();
            exchange.json(404, &json!({"error": {"message": format!("nothing is at {path}")}}))
        }
    }
}

/// The request with its body read.
async fn read(request: Request<Incoming>) -> io::Result<Recorded> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in &head.headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        let known = headers.entry(name.as_str().to_owned()).or_default();
        if !known.is_empty() {
            known.push_str(", ");
        }
        known.push_str(&value);
    }
    let form = headers.get("content-type").is_some_and(|kind| kind.starts_with("application/x-www-form"));
    let text = String::from_utf8_lossy(&body);
    let raw = text.clone().into_owned();
    let body = if text.is_empty() {
        Value::Null
    } else if let Ok(json) = serde_json::from_str(&text) {
        // Whatever it is called: curl calls everything a form.
        json
    } else if form {
        json!(route::pairs(&text))
    } else {
        text.into()
    };
    Ok(Recorded {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: route::pairs(head.uri.query().unwrap_or_default()),
        headers,
        body,
        raw,
    })
}

/// An answer that is none of the vendor's.
struct Instead {
    status: u16,
    content_type: &'static str,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// What the turn does instead of an answer: refuse, show a page, or not come back.
async fn instead(turn: &Turn, format: Format, route: &Route) -> Option<Instead> {
    let whole = !matches!(route, Route::Answer { delivery: Delivery::Stream | Delivery::List, .. });
    let mut waited = Vec::new();
    for step in &turn.steps {
        match step {
            Step::HalfOpen => std::future::pending().await,
            Step::Pause(time) => waited.push(*time),
            Step::Refuse(refusal) => {
                sleep(&waited).await;
                return Some(refuse(refusal, format));
            }
            // Who did not ask for a stream gets the error as HTTP has it.
            Step::ErrorInside(kind) if whole => {
                sleep(&waited).await;
                return Some(refuse(&plain(*kind), format));
            }
            Step::Html(status) => {
                sleep(&waited).await;
                let body =
                    b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Hello</body></html>\n";
                let (status, body) = (*status, body.to_vec());
                return Some(Instead { status, content_type: "text/html", headers: Vec::new(), body });
            }
            _ => {}
        }
    }
    None
}

async fn sleep(times: &[std::time::Duration]) {
    tokio::time::sleep(times.iter().sum()).await;
}

fn plain(kind: Kind) -> Refusal {
    Refusal { kind, status: None, headers: BTreeMap::new(), body: None }
}

fn refuse(refusal: &Refusal, format: Format) -> Instead {
    let Refused { status, headers, body } = format.refusal(refusal.kind);
    let own = refusal.body.is_none();
    let mut all: Vec<_> = refusal.headers.clone().into_iter().collect();
    if own {
        all.extend(headers.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
    Instead {
        status: refusal.status.unwrap_or(status),
        content_type: "application/json",
        headers: all,
        body: refusal.body.as_ref().unwrap_or(&body).to_string().into_bytes(),
    }
}

impl Exchange {
    fn play(
        self,
        turn: Turn,
        format: Format,
        model: String,
        delivery: Delivery,
    ) -> io::Result<Response<Reply>> {
        let wants_usage = self.request.body["stream_options"]["include_usage"] == true;
        let number = self.state.answers.fetch_add(1, Ordering::SeqCst) + 1;
        let frame = Frame { number, model, tokens: turn.tokens(), wants_usage };
        let (to, from) = mpsc::channel(AHEAD);
        let reply = Reply::played(from, self.presence, self.reset);
        tidegate_runtime::spawn("model server turn", async move {
            if delivery == Delivery::Whole {
                let body = format.whole(&frame, &turn.blocks(), &turn.stop());
                play::whole(&turn, body.to_string().into_bytes(), to).await;
            } else {
                play::stream(&turn, format.writer(frame, delivery), to).await;
            }
        });
        respond(200, format.content_type(delivery), &[], number, reply)
    }

    fn json(self, status: u16, body: &Value) -> io::Result<Response<Reply>> {
        self.reply(status, "application/json", &[], body.to_string().into_bytes())
    }

    fn reply(
        self,
        status: u16,
        content_type: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> io::Result<Response<Reply>> {
        let number = self.state.answers.fetch_add(1, Ordering::SeqCst) + 1;
        respond(status, content_type, headers, number, Reply::whole(body, self.presence, self.reset))
    }
}

/// Every vendor names its request; each calls the header otherwise.
const REQUEST_ID: [&str; 3] = ["request-id", "x-request-id", "x-amzn-requestid"];

fn respond(
    status: u16,
    content_type: &str,
    headers: &[(String, String)],
    number: usize,
    reply: Reply,
) -> io::Result<Response<Reply>> {
    let mut response = Response::builder().status(status).header("content-type", content_type);
    for name in REQUEST_ID {
        response = response.header(name, format!("req_{number:04}"));
    }
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(reply).map_err(io::Error::other)
}
