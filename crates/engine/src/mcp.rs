//! What an engine offers to those who speak the Model Context Protocol: an agent's tools under its rules, the
//! conversations there are, and the agent itself.

use std::fmt::Write as _;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_mcp::{Desk, DeskError, McpHttp, OfferedText};
use tidegate_policy::Principal;
use tidegate_protocol::api::Asking;
use tidegate_protocol::{
    Block, Entry, EntryBody, Message, ReplyTarget, Risk, RunId, ToolCall, ToolMeta, ToolResult, ToolSource,
};
use tidegate_runtime::{Shutdown, iso_timestamp, new_id};
use tidegate_storage::{SessionChoice, SessionFilter, SessionRow};
use tidegate_tools::{ToolFailure, ToolSpec, failed};
use tokio_util::sync::CancellationToken;

use crate::error::EngineError;
use crate::sessions::{session_key, session_name};
use crate::settings::Wish;
use crate::start::{Core, Engine};
use crate::submit::Request;
use crate::tools::Invoke;

/// The session that calls without a conversation belong to.
const SESSION: &str = "mcp";
/// Conversations that are listed.
const LISTED: u32 = 200;
/// Lines of a conversation that are read at once.
const LINES: u32 = 500;
/// How long a question may wait for its turn in a conversation.
const PATIENCE: Duration = Duration::from_secs(10);
/// What the address of a conversation begins with.
const ADDRESS: &str = "tidegate://sessions/";

/// Puts a question to the agent.
#[derive(Deserialize, JsonSchema)]
struct AskArgs {
    /// What to ask.
    message: String,
    /// The conversation it belongs to; `mcp` when absent.
    session: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct ListArgs {
    /// How many at most.
    #[schemars(range(min = 1, max = 200))]
    limit: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
struct HistoryArgs {
    /// The conversation's name, as `sessions_list` has it.
    session: String,
    /// How many of the newest lines; 50 when absent.
    #[schemars(range(min = 1, max = 500))]
    limit: Option<u32>,
}

impl Engine {
    /// Answers requests of the protocol for whoever owns this home.
    pub fn mcp(&self) -> McpHttp {
        McpHttp::new(Arc::new(EngineDesk(Arc::downgrade(&self.core))))
    }
}

/// It does not keep the engine alive.
struct EngineDesk(Weak<Core>);

/// The tools that this part adds to the agent's own.
fn own_tools() -> [ToolSpec; 3] {
    let ask = ToolSpec {
        risk: Risk::Execute,
        idempotent: false,
        ..ToolSpec::of::<AskArgs>("ask", "Puts a question to the Tidegate agent and waits for its answer.")
    };
    [
        ask,
        ToolSpec::of::<HistoryArgs>("sessions_history", "The newest lines of a conversation."),
        ToolSpec::of::<ListArgs>("sessions_list", "The conversations there are, the newest first."),
    ]
}

fn told(error: &EngineError) -> DeskError {
    DeskError::Failed(error.body().message)
}

impl EngineDesk {
    fn engine(&self) -> Result<Engine, DeskError> {
        let core = self.0.upgrade().filter(|core| !core.closing.is_requested());
        core.map(|core| Engine { core }).ok_or_else(|| DeskError::Failed("shutting down".to_owned()))
    }
}

#[async_trait]
impl Desk for EngineDesk {
    async fn tools(&self) -> Result<Vec<ToolSpec>, DeskError> {
        let own = own_tools();
        let mut tools = self.engine()?.offered_tools(SESSION).map_err(|error| told(&error))?;
        tools.retain(|tool| own.iter().all(|own| own.name != tool.name));
        tools.extend(own);
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tools)
    }

    async fn call(
        &self,
        name: &str,
        args: Value,
        cancel: &CancellationToken,
    ) -> Result<ToolResult, DeskError> {
        let engine = self.engine()?;
        if let Some(own) = own_tools().iter().find(|tool| tool.name == name) {
            let problems = tidegate_tools::check_arguments(&own.input_schema, &args);
            if !problems.is_empty() {
                let messages: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
                return Ok(failed(name, ToolFailure::arguments(messages.join("; "))));
            }
            let done = match name {
                "ask" => engine.ask_for_mcp(args, cancel).await,
                "sessions_history" => engine.history_for_mcp(args).await,
                _ => engine.list_for_mcp(args).await,
            };
            return Ok(done.unwrap_or_else(|failure| failed(name, failure)));
        }
        if !self.tools().await?.iter().any(|tool| tool.name == name) {
            return Err(DeskError::NoSuchTool(name.to_owned()));
        }
        let id: RunId =
            new_id(engine.core.clock.as_ref()).map_err(|error| DeskError::Failed(error.to_string()))?;
        let scope = engine.settings().scope(None).map_err(|error| DeskError::Failed(error.to_string()))?;
        let invoke = Invoke {
            principal: Principal::local_owner(engine.tenant().clone()),
            scope,
            session: SESSION.to_owned(),
            run: None,
            call: ToolCall { id: format!("mcp-{id}"), name: name.to_owned(), args, source: ToolSource::Api },
            root: None,
            model: None,
            subagent: false,
            // Whoever looks after this home answers, wherever they are.
            asking: Asking::Others,
            allow: None,
            also: Vec::new(),
        };
        engine.invoke(invoke, cancel, Arc::new(|_| {})).await.map_err(|error| told(&error))
    }

    async fn texts(&self) -> Result<Vec<OfferedText>, DeskError> {
        let engine = self.engine()?;
        let rows = engine.rows_for_mcp(LISTED).await.map_err(|error| told(&error))?;
        let text = |(name, row): (String, SessionRow)| OfferedText {
            uri: format!("{ADDRESS}{}", encoded(&name)),
            description: row.title,
            name,
        };
        Ok(rows.into_iter().map(text).collect())
    }

    async fn read(&self, uri: &str) -> Result<Option<String>, DeskError> {
        let engine = self.engine()?;
        let Some(wanted) = uri.strip_prefix(ADDRESS) else { return Ok(None) };
        let rows = engine.rows_for_mcp(LISTED).await.map_err(|error| told(&error))?;
        let Some((_, row)) = rows.into_iter().find(|(name, _)| encoded(name) == wanted) else {
            return Ok(None);
        };
        let entries = engine.lines_for_mcp(&row, LINES).await.map_err(|error| told(&error))?;
        Ok(Some(entries.iter().fold(String::new(), |mut all, entry| {
            let _ = write!(
                all,
                "## {} {}\n\n{}\n\n",
                who(&entry.body),
                iso_timestamp(entry.created_at),
                said(&entry.body)
            );
            all
        })))
    }
}

impl Engine {
    async fn rows_for_mcp(&self, limit: u32) -> Result<Vec<(String, SessionRow)>, EngineError> {
        let default = self.settings().scope(None)?;
        let filter = SessionFilter { limit, ..SessionFilter::default() };
        let rows = self.core.store.sessions(self.tenant(), filter).await?;
        Ok(rows.into_iter().map(|row| (session_name(&default, &row.key), row)).collect())
    }

    async fn lines_for_mcp(&self, row: &SessionRow, limit: u32) -> Result<Vec<Entry>, EngineError> {
        let after = (row.head_seq - i64::from(limit)).max(0);
        Ok(self.core.store.entries(self.tenant(), row.id, after, limit).await?)
    }

    async fn list_for_mcp(&self, args: Value) -> Result<ToolResult, ToolFailure> {
        let args: ListArgs = read(args)?;
        let rows = self.rows_for_mcp(args.limit.unwrap_or(LISTED).min(LISTED)).await.map_err(failure)?;
        let sessions: Vec<Value> = rows
            .into_iter()
            .map(|(name, row)| {
                json!({ "session": name, "title": row.title, "lines": row.head_seq, "updatedAt": iso_timestamp(row.updated_at) })
            })
            .collect();
        Ok(fine("sessions_list", json!({ "sessions": sessions })))
    }

    async fn history_for_mcp(&self, args: Value) -> Result<ToolResult, ToolFailure> {
        let args: HistoryArgs = read(args)?;
        let rows = self.rows_for_mcp(LISTED).await.map_err(failure)?;
        let Some((_, row)) = rows.into_iter().find(|(name, _)| *name == args.session) else {
            return Err(ToolFailure::arguments("there is no such conversation; sessions_list has them all"));
        };
        let entries = self.lines_for_mcp(&row, args.limit.unwrap_or(50).min(LINES)).await.map_err(failure)?;
        let line = |entry: &Entry| json!({ "from": who(&entry.body), "text": said(&entry.body), "at": iso_timestamp(entry.created_at) });
        Ok(fine(
            "sessions_history",
            json!({ "session": args.session, "lines": entries.iter().map(line).collect::<Vec<_>>() }),
        ))
    }

    /// The run is like every other, and ends when nobody waits for it any more.
    async fn ask_for_mcp(&self, args: Value, cancel: &CancellationToken) -> Result<ToolResult, ToolFailure> {
        let args: AskArgs = read(args)?;
        let settings = self.settings();
        let name = args.session.as_deref().unwrap_or(SESSION);
        let key = session_key(self.tenant(), || settings.scope(None), name)
            .map_err(|error| ToolFailure::arguments(error.to_string()))?;
        let spec =
            settings.asked_spec(&key.scope, &Wish::default()).map_err(|error| failure(error.into()))?;
        let request = Request {
            principal: Principal::local_owner(self.tenant().clone()),
            key,
            session: SessionChoice::Current,
            ephemeral: false,
            text: args.message,
            commands: false,
            client_key: None,
            idempotency: None,
            spec,
            reply: ReplyTarget::Caller,
            join: None,
            patience: Some(PATIENCE),
        };
        let stop = Shutdown::new();
        let mut quiet = |_: &tidegate_protocol::RunEventBody| {};
        let asking = self.ask(request, &stop, &mut quiet);
        tokio::pin!(asking);
        let answered = tokio::select! {
            answered = &mut asking => answered,
            () = cancel.cancelled() => {
                stop.request();
                asking.await
            }
        };
        let answer = answered.map_err(failure)?;
        let mut result =
            fine("ask", json!({ "answer": answer.text, "run": answer.run, "session": answer.session_name }));
        result.content = vec![Block::text(answer.text)];
        Ok(result)
    }
}

fn read<A: serde::de::DeserializeOwned>(args: Value) -> Result<A, ToolFailure> {
    serde_json::from_value(args).map_err(|error| ToolFailure::arguments(error.to_string()))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of what maps an error")]
fn failure(error: EngineError) -> ToolFailure {
    ToolFailure::execution(error.body().message)
}

fn fine(tool: &str, data: Value) -> ToolResult {
    ToolResult {
        ok: true,
        content: vec![Block::text(data.to_string())],
        data: Some(data),
        error: None,
        meta: ToolMeta { tool: tool.to_owned(), duration_ms: 0, truncated: false },
    }
}

fn who(body: &EntryBody) -> &'static str {
    match body {
        EntryBody::Message(Message::User { .. }) => "user",
        EntryBody::Message(Message::Assistant { .. }) => "assistant",
        EntryBody::Message(Message::ToolResult { .. }) => "tool",
        EntryBody::Compaction(_) => "summary",
        EntryBody::Unknown(_) => "unknown",
    }
}

fn said(body: &EntryBody) -> String {
    match body {
        EntryBody::Message(message) => message.text(),
        EntryBody::Compaction(compaction) => compaction.summary.clone(),
        EntryBody::Unknown(_) => String::new(),
    }
}

/// For one step of an address.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}
