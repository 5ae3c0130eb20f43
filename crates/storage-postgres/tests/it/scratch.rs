//! A schema of its own for each test, and the small values tests are made of.

use std::str::FromStr as _;

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use tidegate_protocol::{
    EntryBody, Id, Limits, Message, ModelRef, Origin, OutboundTarget, ReplyTarget, RunSpec, Scope,
    SessionKey, TenantId,
};
use tidegate_runtime::{SystemClock, new_id, spawn};
use tidegate_storage::{
    Accept, Admission, ContextLimits, Ending, Finish, Idempotency, Instances as _, Lease, NewEntry, NewPart,
    NewRun, NewSession, NextSend, Outbox as _, Owner, Principal, Runs as _, Sending, SessionChoice,
};
use tidegate_storage_postgres::{Mode, PostgresOptions, PostgresStore};
use tidegate_testkit::skip::skip_loudly;

pub(crate) const NOW: i64 = 1_771_866_451_123;

/// A schema that exists as long as its test.
#[derive(Clone)]
pub(crate) struct Scratch {
    pub(crate) url: String,
    pub(crate) schema: String,
}

/// Runs a test with a schema of its own and removes it whatever happens.
pub(crate) async fn with_schema<F: Future<Output = ()> + Send + 'static>(test: impl FnOnce(Scratch) -> F) {
    let Ok(url) = std::env::var("TIDEGATE_TEST_POSTGRES") else {
        skip_loudly("set TIDEGATE_TEST_POSTGRES to the address of a throw-away server to run it");
        return;
    };
    let scratch = Scratch { url, schema: format!("tg_test_{}", random_name()) };
    let ended = spawn("test", test(scratch.clone())).join().await;
    scratch.admin(&format!("DROP SCHEMA IF EXISTS {} CASCADE", scratch.schema)).await;
    if let Err(end) = ended {
        panic!("{end}");
    }
}

pub(crate) fn random_name() -> String {
    id::<tidegate_protocol::RunId>().uuid().simple().to_string()
}

pub(crate) fn id<T: Id>() -> T {
    new_id(&SystemClock).unwrap()
}

impl Scratch {
    pub(crate) fn options(&self, mode: Mode) -> PostgresOptions {
        PostgresOptions {
            url: self.url.clone(),
            migrate_url: None,
            schema: self.schema.clone(),
            max_connections: 8,
            mode,
        }
    }

    pub(crate) async fn open(&self) -> PostgresStore {
        PostgresStore::open(self.options(Mode::ReadWrite)).await.unwrap()
    }

    /// The superuser, with the tests' schema in its path.
    pub(crate) async fn superuser(&self) -> PgConnection {
        let mut connection = PgConnectOptions::from_str(&self.url).unwrap().connect().await.unwrap();
        run(&mut connection, &format!("SET search_path TO {}", self.schema)).await.unwrap();
        connection
    }

    /// The role of the store, as somebody with hand-written SQL would have it.
    pub(crate) async fn app_role(&self) -> PgConnection {
        let mut connection = self.superuser().await;
        run(&mut connection, "SET ROLE tidegate_app").await.unwrap();
        connection
    }

    pub(crate) async fn admin(&self, sql: &str) {
        run(&mut self.superuser().await, sql).await.unwrap();
    }
}

pub(crate) async fn run(connection: &mut PgConnection, sql: &str) -> Result<u64, sqlx::Error> {
    Ok(sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await?.rows_affected())
}

pub(crate) fn code(error: &sqlx::Error) -> String {
    error.as_database_error().unwrap().code().unwrap().into_owned()
}

pub(crate) fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

pub(crate) fn key(tenant: &str, name: &str) -> SessionKey {
    let scope = Scope {
        tenant: tenant.parse().unwrap(),
        workspace: "default".parse().unwrap(),
        agent: "main".parse().unwrap(),
    };
    SessionKey::named(scope, name)
}

pub(crate) fn channel_reply() -> ReplyTarget {
    ReplyTarget::Channel {
        channel: "local".parse().unwrap(),
        account_id: "a".into(),
        target: OutboundTarget { peer_id: "p".into(), thread_id: None },
        in_reply_to: None,
    }
}

/// A request that is claimed if its session is idle.
pub(crate) fn accept(key: &SessionKey, owner: Owner) -> Accept {
    let model = ModelRef { provider: "offline".into(), model: "echo".into() };
    Accept {
        principal: principal(key),
        key: key.clone(),
        run: NewRun {
            id: id(),
            client_key: None,
            spec: RunSpec::new("r1", vec![model], Limits::new(60_000, 20)),
            input: Message::user("hi", NOW),
            reply: channel_reply(),
            join: None,
            parent: None,
        },
        session: SessionChoice::Current,
        new_session: NewSession { id: id(), alias: Some(format!("lc-{}", random_name())) },
        inbound: None,
        idempotency: None,
        reservation: None,
        ephemeral: false,
        owner,
        claim: true,
        now: NOW,
    }
}

pub(crate) fn idempotency(key: &str, request: &str) -> Idempotency {
    Idempotency::new(key, request.as_bytes(), NOW + 60_000)
}

pub(crate) fn principal(key: &SessionKey) -> Principal {
    Principal::local_owner(key.scope.tenant.clone())
}

pub(crate) fn entry(text: &str) -> NewEntry {
    NewEntry { id: id(), body: EntryBody::Message(Message::user(text, NOW)) }
}

pub(crate) fn part(lane: &str, body: &str) -> NewPart {
    NewPart {
        id: id(),
        channel: "local".parse().unwrap(),
        account_id: "a".into(),
        lane: lane.into(),
        body: body.into(),
    }
}

pub(crate) fn origin() -> Origin {
    Origin {
        api: "offline".into(),
        provider: "offline".into(),
        model: "echo".into(),
        profile_id: None,
        route: "echo".into(),
        stage: "adapter.stub.echo".into(),
    }
}

pub(crate) fn finish(lease: &Lease, texts: &[&str], parts: Vec<NewPart>) -> Finish {
    Finish {
        ending: Ending::Completed(origin()),
        entries: texts.iter().map(|text| entry(text)).collect(),
        calls: Vec::new(),
        parts,
        announce: None,
        closes_session: false,
        context_tokens: None,
        principal: principal(&lease.key),
        now: NOW + 10,
    }
}

/// As much of a log as these many lines.
pub(crate) fn newest(entries: u32) -> ContextLimits {
    ContextLimits { entries, ..ContextLimits::NONE }
}

pub(crate) async fn enlisted(store: &PostgresStore) -> Owner {
    store.enlist(id(), NOW).await.unwrap()
}

/// Accepts a run on an idle session and claims it.
pub(crate) async fn begin(store: &PostgresStore, key: &SessionKey, owner: Owner) -> Lease {
    match store.accept(accept(key, owner)).await.unwrap().admission {
        Admission::Claimed(lease) => lease,
        other => panic!("not claimed: {other:?}"),
    }
}

/// Takes the head of a lane, which must be there.
pub(crate) async fn send(store: &PostgresStore, tenant: &TenantId, owner: &Owner, lane: &str) -> Sending {
    match store.claim_send(tenant, owner, lane, 60_000, NOW).await.unwrap() {
        NextSend::Granted(sending) => sending,
        other => panic!("not granted: {other:?}"),
    }
}
