//! The rows. A method that is served names its handler; one that is known and not built yet only what it takes.

use std::sync::LazyLock;

use serde_json::Value;
use tidegate_protocol::api::{
    self, Ack, AgentRef, ApprovalAnswered, ApprovalList, ApprovalRef, ApprovalView, AuditList, Compacted,
    ConfigView, DecideApproval, DecideOutbox, Deleted, HealthView, ListApprovals, ListAudit, ListOutbox,
    ListRuns, ListSessions, Me, MessageSent, ModelList, OutboxList, RenameSession, ResumeEvents, Resumed,
    RunList, RunRef, RunView, SendDecision, SendMessage, SessionList, SessionRef, Snapshot, Status,
    SubscribeSession, Subscribed, ToolList, Unsubscribe, UsageOf, UsageView,
};
use tidegate_protocol::schema::Shape;

use super::later::{CronAdd, CronRemove, CronUpdate};
use super::{Behind, Method, Nothing, Repeat, read, schema_of};
use crate::dialect::native::{conversations, house, news, runs, watch};
use crate::dialect::openclaw::quiet::About;
use crate::dialect::openclaw::{
    agent, approvals, chat, config, devices, lines, logs, nodes, quiet, sessions, settings, system, talk,
    usage,
};
use crate::dialect::openfoal::{self, rows as foal};
use crate::ws::frame::to_json;
use crate::ws::peer::Dialect;
use crate::ws::scope::Need;

/// Only our own dialect has types that are ours to describe.
macro_rules! shapes {
    (typed $params:ty, $result:ty) => {
        Some((Shape::of::<$params>(), Shape::of::<$result>()))
    };
    (open $params:ty, $result:ty) => {
        None
    };
}

macro_rules! methods {
    (
        $($dialect:ident $types:ident {
            served { $($name:literal $need:ident $repeat:ident ($params:ty) -> $result:ty = $handler:path;)* }
            not_yet { $($later:literal $later_need:ident $later_repeat:ident ($later_params:ty);)* }
        })+
    ) => {
        /// Every method, dialect by dialect.
        pub static METHODS: &[Method] = &[
            $(
                $(Method {
                    name: $name,
                    dialect: Dialect::$dialect,
                    need: Need::$need,
                    repeat: Repeat::$repeat,
                    params: stringify!($params),
                    result: stringify!($result),
                    shapes: shapes!($types $params, $result),
                    schema: { static SCHEMA: LazyLock<Value> = LazyLock::new(schema_of::<$params>); &SCHEMA },
                    behind: Behind::Handler(|caller, params| Box::pin(async move {
                        let params: $params = read($name, params)?;
                        let answer: $result = $handler(caller, params).await?;
                        Ok(to_json(&answer))
                    })),
                },)*
                $(Method {
                    name: $later,
                    dialect: Dialect::$dialect,
                    need: Need::$later_need,
                    repeat: Repeat::$later_repeat,
                    params: stringify!($later_params),
                    result: "Value",
                    shapes: None,
                    schema: { static SCHEMA: LazyLock<Value> = LazyLock::new(schema_of::<$later_params>); &SCHEMA },
                    behind: Behind::Nothing,
                },)*
            )+
        ];
    };
}

methods! {
    Native typed {
        served {
            "me.get" Read Harmless (api::Nothing) -> Me = house::me;
            "status.get" Read Harmless (api::Nothing) -> Status = house::status;
            "health.get" Read Harmless (api::Nothing) -> HealthView = house::health;
            "sessions.list" Read Harmless (ListSessions) -> SessionList = conversations::list;
            "session.get" Read Harmless (SessionRef) -> Snapshot = conversations::get;
            "session.rename" Write Harmless (RenameSession) -> Ack = conversations::rename;
            "session.delete" Write Harmless (SessionRef) -> Deleted = conversations::delete;
            "session.reset" Write Again (SessionRef) -> Ack = conversations::reset;
            "session.compact" Write Again (SessionRef) -> Compacted = conversations::compact;
            "session.subscribe" Read Harmless (SubscribeSession) -> Subscribed = watch::subscribe;
            "session.unsubscribe" Read Harmless (Unsubscribe) -> Ack = watch::unsubscribe;
            "message.send" Write Run (SendMessage) -> MessageSent = conversations::send;
            "run.get" Read Harmless (RunRef) -> RunView = runs::get;
            "run.list" Read Harmless (ListRuns) -> RunList = runs::list;
            "run.abort" Write Harmless (RunRef) -> Ack = runs::abort;
            "approval.list" Approvals Harmless (ListApprovals) -> ApprovalList = runs::approvals;
            "approval.get" Approvals Harmless (ApprovalRef) -> ApprovalView = runs::approval;
            "approval.decide" Approvals Harmless (DecideApproval) -> ApprovalAnswered = runs::decide;
            "outbox.list" Read Harmless (ListOutbox) -> OutboxList = runs::outbox;
            "outbox.decide" Write Harmless (DecideOutbox) -> SendDecision = runs::decide_outbox;
            "models.list" Read Harmless (AgentRef) -> ModelList = house::models;
            "tools.list" Read Harmless (AgentRef) -> ToolList = house::tools;
            "usage.get" Read Harmless (UsageOf) -> UsageView = house::usage;
            "config.get" Admin Harmless (api::Nothing) -> ConfigView = house::config;
            "audit.list" Admin Harmless (ListAudit) -> AuditList = house::audit;
            "events.resume" Read Harmless (ResumeEvents) -> Resumed = news::resume;
        }
        not_yet {}
    }
    Openclaw open {
        served {
            "health" Read Harmless (system::Health) -> Value = system::health;
            "logs.tail" Read Harmless (logs::LogsTail) -> Value = logs::tail;
            "channels.status" Read Harmless (system::ChannelsStatus) -> Value = system::channels_status;
            "status" Read Harmless (Nothing) -> Value = system::status;
            "usage.status" Read Harmless (Nothing) -> Value = usage::status;
            "usage.cost" Read Harmless (usage::UsageCost) -> Value = usage::cost;
            "config.get" Admin Harmless (Nothing) -> Value = config::get;
            "config.set" Admin Again (config::ConfigSet) -> Value = config::set;
            "config.patch" Admin Again (config::ConfigApply) -> Value = config::patch;
            "config.apply" Admin Again (config::ConfigApply) -> Value = config::apply;
            "config.schema" Admin Harmless (Nothing) -> Value = config::schema;
            "exec.approval.list" Approvals Harmless (Nothing) -> Value = approvals::list;
            "exec.approval.get" Approvals Harmless (approvals::ApprovalGet) -> Value = approvals::get;
            "exec.approval.request" Approvals Again (approvals::ApprovalRequest) -> Value = approvals::request;
            "exec.approval.resolve" Approvals Harmless (approvals::ApprovalResolve) -> Value = approvals::resolve;
            "models.list" Read Harmless (system::ModelsList) -> Value = system::models;
            "models.authStatus" Read Harmless (About) -> Value = quiet::auth_status;
            "agents.list" Read Harmless (Nothing) -> Value = system::agents;
            "tools.effective" Read Harmless (system::Identity) -> Value = system::tools;
            "agent.identity.get" Read Harmless (system::Identity) -> Value = system::identity;
            "agent" Write Run (agent::AgentParams) -> Value = agent::agent;
            "agent.wait" Write Harmless (agent::WaitParams) -> Value = agent::wait;
            "chat.history" Read Harmless (chat::ChatHistory) -> Value = chat::history;
            "chat.startup" Read Harmless (chat::ChatHistory) -> Value = chat::startup;
            "chat.send" Write Run (chat::ChatSend) -> Value = chat::send;
            "chat.inject" Admin Again (lines::ChatInject) -> Value = lines::inject;
            "send" Write Run (lines::Send) -> Value = lines::send;
            "wake" Write Again (lines::Wake) -> Value = lines::wake;
            "talk.mode" Write Harmless (talk::TalkMode) -> Value = talk::mode;
            "chat.metadata" Read Harmless (About) -> Value = quiet::metadata;
            "chat.abort" Write Harmless (chat::ChatAbort) -> Value = chat::abort;
            "sessions.list" Read Harmless (sessions::SessionsList) -> Value = sessions::list;
            "sessions.describe" Read Harmless (sessions::SessionsDescribe) -> Value = sessions::describe;
            "sessions.preview" Read Harmless (sessions::SessionsPreview) -> Value = sessions::preview;
            "sessions.resolve" Read Harmless (sessions::SessionsResolve) -> Value = sessions::resolve;
            "sessions.patch" Admin Harmless (settings::SessionsPatch) -> Value = settings::patch;
            "sessions.reset" Admin Again (sessions::SessionsReset) -> Value = sessions::reset;
            "sessions.delete" Admin Harmless (sessions::SessionsDelete) -> Value = sessions::delete;
            "sessions.compact" Admin Again (sessions::SessionsCompact) -> Value = sessions::compact;
            "sessions.subscribe" Read Harmless (Nothing) -> Value = sessions::subscribe;
            "sessions.unsubscribe" Read Harmless (Nothing) -> Value = sessions::unsubscribe;
            "sessions.messages.subscribe" Read Harmless (sessions::MessagesSubscribe) -> Value = sessions::watch;
            "sessions.messages.unsubscribe" Read Harmless (sessions::OneSession) -> Value = sessions::unwatch;
            "events.resume" Read Harmless (system::Resume) -> Value = system::resume;
            "system-presence" Read Harmless (Nothing) -> Value = system::presence;
            "system-event" Admin Again (system::SystemEvent) -> Value = system::system_event;
            "system.info" Read Harmless (Nothing) -> Value = system::info;
            "device.pair.list" Pairing Harmless (Nothing) -> Value = devices::list;
            "device.pair.approve" Pairing Harmless (devices::PairRequest) -> Value = devices::approve;
            "device.pair.reject" Pairing Harmless (devices::PairRequest) -> Value = devices::reject;
            "device.token.rotate" Pairing Again (devices::TokenOf) -> Value = devices::rotate;
            "device.token.revoke" Pairing Harmless (devices::TokenOf) -> Value = devices::revoke;
            "node.pair.list" Pairing Harmless (Nothing) -> Value = devices::nodes;
            "node.pair.approve" Pairing Harmless (devices::PairRequest) -> Value = devices::approve;
            "node.pair.reject" Pairing Harmless (devices::PairRequest) -> Value = devices::reject;
            "node.rename" Pairing Harmless (devices::NodeRename) -> Value = devices::rename;
            "node.list" Read Harmless (Nothing) -> Value = nodes::list;
            "node.describe" Read Harmless (nodes::NodeDescribe) -> Value = nodes::describe;
            "node.invoke" Write Keyed (nodes::NodeInvoke) -> Value = nodes::invoke;
            "node.invoke.result" Node Harmless (nodes::NodeAnswer) -> Value = nodes::result;
            "node.event" Node Again (nodes::NodeEvent) -> Value = nodes::event;
            "skills.bins" Node Harmless (About) -> Value = quiet::bins;
            "skills.status" Read Harmless (About) -> Value = quiet::skills;
            "last-heartbeat" Read Harmless (About) -> Value = quiet::no_heartbeat;
            "cron.list" Read Harmless (About) -> Value = quiet::cron_list;
            "cron.status" Read Harmless (About) -> Value = quiet::cron_status;
            "commands.list" Read Harmless (About) -> Value = quiet::commands;
            "question.list" Read Harmless (About) -> Value = quiet::questions;
            "plugin.approval.list" Approvals Harmless (About) -> Value = quiet::nothing;
            "openclaw.approval.list" Approvals Harmless (About) -> Value = quiet::nothing;
            "taskSuggestions.list" Read Harmless (About) -> Value = quiet::suggestions;
            "tasks.list" Read Harmless (About) -> Value = quiet::tasks;
            "projects.list" Read Harmless (About) -> Value = quiet::projects;
            "update.status" Read Harmless (About) -> Value = quiet::update;
            "plugins.list" Read Harmless (About) -> Value = quiet::plugin_list;
            "plugins.controlUi.list" Read Harmless (About) -> Value = quiet::plugins;
            "sessions.observer.visibility" Read Harmless (About) -> Value = quiet::ok;
            "controlUi.sessionPullRequests.subscribe" Read Harmless (About) -> Value = quiet::subscribed;
            "users.prefs.get" Read Harmless (About) -> Value = quiet::prefs;
            "board.get" Read Harmless (quiet::AboutOne) -> Value = quiet::board;
            "sessions.viewers.set" Read Harmless (quiet::AboutSome) -> Value = quiet::viewers;
            "sessions.github.options" Read Harmless (About) -> Value = quiet::github;
            "talk.catalog" Read Harmless (About) -> Value = quiet::talk;
            "session.members.listEvidence" Read Harmless (quiet::AboutOne) -> Value = quiet::members;
            "sessions.groups.list" Read Harmless (About) -> Value = quiet::groups;
            "sessions.groups.defaults" Read Harmless (About) -> Value = quiet::group_defaults;
            "mentions.list" Read Harmless (About) -> Value = quiet::mentions;
            "progressCard.get" Read Harmless (About) -> Value = quiet::card;
            "sessions.branches.list" Read Harmless (About) -> Value = quiet::branches;
            "session.discussion.info" Read Harmless (About) -> Value = quiet::discussion;
            "sessions.companion.state" Read Harmless (About) -> Value = quiet::companion;
            "sessions.catalog.list" Read Harmless (About) -> Value = quiet::catalogs;
            "voicewake.get" Read Harmless (About) -> Value = quiet::voice_wake;
        }
        not_yet {
            "cron.add" Admin Again (CronAdd);
            "cron.update" Admin Again (CronUpdate);
            "cron.remove" Admin Harmless (CronRemove);
        }
    }
    Openfoal open {
        served {
            "agent.run" Write Run (foal::AgentRun) -> Value = foal::agent_run;
            "agent.abort" Write Keyed (foal::AgentAbort) -> Value = foal::agent_abort;
            "sessions.create" Write Keyed (foal::SessionsCreate) -> Value = foal::sessions_create;
            "sessions.list" Read Harmless (foal::Scoped) -> Value = foal::sessions_list;
            "sessions.get" Read Harmless (foal::SessionOf) -> Value = foal::sessions_get;
            "sessions.history" Read Harmless (foal::SessionsHistory) -> Value = foal::sessions_history;
            "runtime.setMode" Write Keyed (foal::SetMode) -> Value = foal::set_mode;
            "approval.queue" Approvals Harmless (foal::ApprovalQueue) -> Value = foal::approval_queue;
            "approval.resolve" Approvals Keyed (foal::ApprovalResolve) -> Value = foal::approval_resolve;
            "budget.get" Read Harmless (foal::ScopeKey) -> Value = openfoal::rules::budget_get;
            "audit.query" Read Harmless (foal::AuditQuery) -> Value = openfoal::house::audit_query;
            "metrics.summary" Read Harmless (foal::Scoped) -> Value = openfoal::house::metrics_summary;
            "policy.get" Read Harmless (foal::ScopeKey) -> Value = openfoal::rules::policy_get;
            "policy.update" Admin Keyed (openfoal::rules::PolicyUpdate) -> Value = openfoal::rules::policy_update;
            "budget.update" Admin Keyed (openfoal::rules::BudgetUpdate) -> Value = openfoal::rules::budget_update;
        }
        not_yet {}
    }
}
