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
use super::{Behind, Described, Method, Nothing, Repeat, read, schema_of};
use crate::dialect::native::{conversations, house, news, runs, watch};
use crate::dialect::openclaw::answers::{Done, EmptyList, Null};
use crate::dialect::openclaw::quiet::About;
use crate::dialect::openclaw::{
    agent, agents, approvals, chat, config, devices, lines, logs, nodes, quiet, sessions, settings, system,
    talk, usage,
};
use crate::dialect::openfoal::{self, rows as foal};
use crate::ws::frame::to_json;
use crate::ws::peer::Dialect;
use crate::ws::scope::Need;

/// The types of our own dialect bring their TypeScript along; that of the others is made from the schemas.
macro_rules! shapes {
    (own $params:ty, $result:ty) => {
        Some((Shape::of::<$params>(), Shape::of::<$result>()))
    };
    (foreign $params:ty, $result:ty) => {
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
                    schema: { static SCHEMA: LazyLock<Value> = LazyLock::new(schema_of::<$params>); &SCHEMA },
                    behind: Behind::Handler {
                        call: |caller, params| Box::pin(async move {
                            let params: $params = read($name, params)?;
                            let answer: $result = $handler(caller, params).await?;
                            Ok(to_json(&answer))
                        }),
                    },
                },)*
                $(Method {
                    name: $later,
                    dialect: Dialect::$dialect,
                    need: Need::$later_need,
                    repeat: Repeat::$later_repeat,
                    params: stringify!($later_params),
                    result: "never",
                    schema: { static SCHEMA: LazyLock<Value> = LazyLock::new(schema_of::<$later_params>); &SCHEMA },
                    behind: Behind::Nothing,
                },)*
            )+
        ];

        /// What the generators want to know about the rows that are served. Apart from them, so that a program that
        /// generates nothing does not carry it.
        pub(super) static DESCRIBED: &[Described] = &[
            $($(Described {
                dialect: Dialect::$dialect,
                name: $name,
                shapes: shapes!($types $params, $result),
                answers: |types| types.subschema_for::<$result>(),
            },)*)+
        ];
    };
}

methods! {
    Native own {
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
    Openclaw foreign {
        served {
            "health" Read Harmless (system::Health) -> system::HealthSummary = system::health;
            "logs.tail" Read Harmless (logs::LogsTail) -> logs::LogPage = logs::tail;
            "channels.status" Read Harmless (system::ChannelsStatus) -> system::ChannelsSummary = system::channels_status;
            "status" Read Harmless (Nothing) -> system::StatusSummary = system::status;
            "usage.status" Read Harmless (Nothing) -> usage::PlanUsage = usage::status;
            "usage.cost" Read Harmless (usage::UsageCost) -> usage::CostSummary = usage::cost;
            "config.get" Admin Harmless (Nothing) -> config::ConfigSnapshot = config::get;
            "config.set" Admin Again (config::ConfigSet) -> config::ConfigWritten = config::set;
            "config.patch" Admin Again (config::ConfigApply) -> config::ConfigApplied = config::patch;
            "config.apply" Admin Again (config::ConfigApply) -> config::ConfigApplied = config::apply;
            "config.schema" Admin Harmless (Nothing) -> config::ConfigSchema = config::schema;
            "exec.approval.list" Approvals Harmless (Nothing) -> approvals::PendingApprovals = approvals::list;
            "exec.approval.get" Approvals Harmless (approvals::ApprovalGet) -> approvals::PendingApproval = approvals::get;
            "exec.approval.request" Approvals Again (approvals::ApprovalRequest) -> approvals::ApprovalDecided = approvals::request;
            "exec.approval.resolve" Approvals Harmless (approvals::ApprovalResolve) -> Done = approvals::resolve;
            "models.list" Read Harmless (agents::ModelsList) -> agents::ModelRows = agents::models;
            "models.authStatus" Read Harmless (About) -> quiet::NoLogins = quiet::auth_status;
            "agents.list" Read Harmless (Nothing) -> agents::AgentList = agents::agents;
            "tools.effective" Read Harmless (agents::Identity) -> agents::EffectiveTools = agents::tools;
            "agent.identity.get" Read Harmless (agents::Identity) -> agents::AgentIdentity = agents::identity;
            "agent" Write Run (agent::AgentParams) -> agent::AgentEnded = agent::agent;
            "agent.wait" Write Harmless (agent::WaitParams) -> agent::AgentWaited = agent::wait;
            "chat.history" Read Harmless (chat::ChatHistory) -> chat::ChatPage = chat::history;
            "chat.startup" Read Harmless (chat::ChatHistory) -> chat::ChatStartup = chat::startup;
            "chat.send" Write Run (chat::ChatSend) -> chat::ChatSent = chat::send;
            "chat.inject" Admin Again (lines::ChatInject) -> lines::ChatInjected = lines::inject;
            "send" Write Run (lines::Send) -> lines::LineSent = lines::send;
            "wake" Write Again (lines::Wake) -> Done = lines::wake;
            "talk.mode" Write Harmless (talk::TalkMode) -> talk::Talking = talk::mode;
            "chat.metadata" Read Harmless (About) -> quiet::ChatMetadata = quiet::metadata;
            "chat.abort" Write Harmless (chat::ChatAbort) -> chat::ChatAborted = chat::abort;
            "sessions.list" Read Harmless (sessions::SessionsList) -> sessions::SessionRows = sessions::list;
            "sessions.describe" Read Harmless (sessions::SessionsDescribe) -> sessions::SessionDescribed = sessions::describe;
            "sessions.preview" Read Harmless (sessions::SessionsPreview) -> sessions::SessionPreviews = sessions::preview;
            "sessions.resolve" Read Harmless (sessions::SessionsResolve) -> sessions::SessionResolved = sessions::resolve;
            "sessions.patch" Admin Harmless (settings::SessionsPatch) -> settings::SessionPatched = settings::patch;
            "sessions.reset" Admin Again (sessions::SessionsReset) -> sessions::SessionReset = sessions::reset;
            "sessions.delete" Admin Harmless (sessions::SessionsDelete) -> sessions::SessionDeleted = sessions::delete;
            "sessions.compact" Admin Again (sessions::SessionsCompact) -> sessions::SessionCompacted = sessions::compact;
            "sessions.subscribe" Read Harmless (Nothing) -> sessions::SessionsWatched = sessions::subscribe;
            "sessions.unsubscribe" Read Harmless (Nothing) -> sessions::SessionsWatched = sessions::unsubscribe;
            "sessions.messages.subscribe" Read Harmless (sessions::MessagesSubscribe) -> sessions::MessagesWatched = sessions::watch;
            "sessions.messages.unsubscribe" Read Harmless (sessions::OneSession) -> sessions::MessagesUnwatched = sessions::unwatch;
            "events.resume" Read Harmless (system::Resume) -> system::EventsResumed = system::resume;
            "system-presence" Read Harmless (Nothing) -> system::Presence = system::presence;
            "system-event" Admin Again (system::SystemEvent) -> Done = system::system_event;
            "system.info" Read Harmless (Nothing) -> system::SystemInfo = system::info;
            "device.pair.list" Pairing Harmless (Nothing) -> devices::DeviceRows = devices::list;
            "device.pair.approve" Pairing Harmless (devices::PairRequest) -> devices::PairApproved = devices::approve;
            "device.pair.reject" Pairing Harmless (devices::PairRequest) -> devices::PairRejected = devices::reject;
            "device.token.rotate" Pairing Again (devices::TokenOf) -> devices::TokenRotated = devices::rotate;
            "device.token.revoke" Pairing Harmless (devices::TokenOf) -> devices::TokenRevoked = devices::revoke;
            "node.pair.list" Pairing Harmless (Nothing) -> devices::PairedNodes = devices::nodes;
            "node.pair.approve" Pairing Harmless (devices::PairRequest) -> devices::PairApproved = devices::approve;
            "node.pair.reject" Pairing Harmless (devices::PairRequest) -> devices::PairRejected = devices::reject;
            "node.rename" Pairing Harmless (devices::NodeRename) -> devices::NodeRenamed = devices::rename;
            "node.list" Read Harmless (Nothing) -> nodes::NodeRows = nodes::list;
            "node.describe" Read Harmless (nodes::NodeDescribe) -> nodes::NodeDescribed = nodes::describe;
            "node.invoke" Write Keyed (nodes::NodeInvoke) -> nodes::NodeInvoked = nodes::invoke;
            "node.invoke.result" Node Harmless (nodes::NodeAnswer) -> nodes::NodeHeard = nodes::result;
            "node.event" Node Again (nodes::NodeEvent) -> Done = nodes::event;
            "skills.bins" Node Harmless (About) -> quiet::NoBins = quiet::bins;
            "skills.status" Read Harmless (About) -> quiet::NoSkills = quiet::skills;
            "last-heartbeat" Read Harmless (About) -> Null = quiet::no_heartbeat;
            "cron.list" Read Harmless (About) -> quiet::NoJobs = quiet::cron_list;
            "cron.status" Read Harmless (About) -> quiet::CronOff = quiet::cron_status;
            "commands.list" Read Harmless (About) -> quiet::NoCommands = quiet::commands;
            "question.list" Read Harmless (About) -> quiet::NoQuestions = quiet::questions;
            "plugin.approval.list" Approvals Harmless (About) -> EmptyList = quiet::nothing;
            "openclaw.approval.list" Approvals Harmless (About) -> EmptyList = quiet::nothing;
            "taskSuggestions.list" Read Harmless (About) -> quiet::NoSuggestions = quiet::suggestions;
            "tasks.list" Read Harmless (About) -> quiet::NoTasks = quiet::tasks;
            "projects.list" Read Harmless (About) -> quiet::NoProjects = quiet::projects;
            "update.status" Read Harmless (About) -> quiet::NoUpdate = quiet::update;
            "plugins.list" Read Harmless (About) -> quiet::NoPlugins = quiet::plugin_list;
            "plugins.controlUi.list" Read Harmless (About) -> quiet::NoPagePlugins = quiet::plugins;
            "sessions.observer.visibility" Read Harmless (About) -> Done = quiet::ok;
            "controlUi.sessionPullRequests.subscribe" Read Harmless (About) -> quiet::NothingWatched = quiet::subscribed;
            "users.prefs.get" Read Harmless (About) -> quiet::NoPreferences = quiet::prefs;
            "board.get" Read Harmless (quiet::AboutOne) -> quiet::EmptyBoard = quiet::board;
            "sessions.viewers.set" Read Harmless (quiet::AboutSome) -> quiet::Viewed = quiet::viewers;
            "sessions.github.options" Read Harmless (About) -> quiet::NoGithub = quiet::github;
            "talk.catalog" Read Harmless (About) -> quiet::NoVoices = quiet::talk;
            "session.members.listEvidence" Read Harmless (quiet::AboutOne) -> quiet::NoMembers = quiet::members;
            "sessions.groups.list" Read Harmless (About) -> quiet::NoGroups = quiet::groups;
            "sessions.groups.defaults" Read Harmless (About) -> quiet::NoGroupDefaults = quiet::group_defaults;
            "mentions.list" Read Harmless (About) -> quiet::NoMentions = quiet::mentions;
            "progressCard.get" Read Harmless (About) -> quiet::NoCard = quiet::card;
            "sessions.branches.list" Read Harmless (About) -> quiet::NoBranches = quiet::branches;
            "session.discussion.info" Read Harmless (About) -> quiet::NoDiscussion = quiet::discussion;
            "sessions.companion.state" Read Harmless (About) -> quiet::NoCompanion = quiet::companion;
            "sessions.catalog.list" Read Harmless (About) -> quiet::NoCatalogs = quiet::catalogs;
            "voicewake.get" Read Harmless (About) -> quiet::NoTriggers = quiet::voice_wake;
        }
        not_yet {
            "cron.add" Admin Again (CronAdd);
            "cron.update" Admin Again (CronUpdate);
            "cron.remove" Admin Harmless (CronRemove);
        }
    }
    Openfoal foreign {
        served {
            "agent.run" Write Run (foal::AgentRun) -> openfoal::answers::RunStatus = foal::agent_run;
            "agent.abort" Write Keyed (foal::AgentAbort) -> openfoal::answers::RunStatus = foal::agent_abort;
            "sessions.create" Write Keyed (foal::SessionsCreate) -> openfoal::answers::OneSession = foal::sessions_create;
            "sessions.list" Read Harmless (foal::Scoped) -> openfoal::answers::SessionRows = foal::sessions_list;
            "sessions.get" Read Harmless (foal::SessionOf) -> openfoal::answers::OneSession = foal::sessions_get;
            "sessions.history" Read Harmless (foal::SessionsHistory) -> openfoal::answers::HistoryRows = foal::sessions_history;
            "runtime.setMode" Write Keyed (foal::SetMode) -> openfoal::answers::ModeSet = foal::set_mode;
            "approval.queue" Approvals Harmless (foal::ApprovalQueue) -> openfoal::answers::ApprovalRows = foal::approval_queue;
            "approval.resolve" Approvals Keyed (foal::ApprovalResolve) -> openfoal::answers::OneApproval = foal::approval_resolve;
            "budget.get" Read Harmless (foal::ScopeKey) -> openfoal::rules::BudgetShown = openfoal::rules::budget_get;
            "audit.query" Read Harmless (foal::AuditQuery) -> openfoal::house::AuditRows = openfoal::house::audit_query;
            "metrics.summary" Read Harmless (foal::Scoped) -> openfoal::house::MetricsSummary = openfoal::house::metrics_summary;
            "policy.get" Read Harmless (foal::ScopeKey) -> openfoal::rules::PolicyShown = openfoal::rules::policy_get;
            "policy.update" Admin Keyed (openfoal::rules::PolicyUpdate) -> openfoal::rules::PolicyShown = openfoal::rules::policy_update;
            "budget.update" Admin Keyed (openfoal::rules::BudgetUpdate) -> openfoal::rules::BudgetShown = openfoal::rules::budget_update;
        }
        not_yet {}
    }
}
