//! A home of one test, on either database, and what is read out of it through the program.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tempfile::TempDir;
use tidegate_testkit::skip::skip_loudly;

use crate::process::Call;

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

/// The address of a server on which tests may make schemas.
const POSTGRES: &str = "TIDEGATE_TEST_POSTGRES";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Sqlite,
    Postgres,
}

pub(crate) struct Home {
    folder: TempDir,
    root: PathBuf,
    schema: Option<Schema>,
}

/// A schema of a random name on the test server, gone with the home.
struct Schema {
    url: String,
    name: String,
}

impl Home {
    /// A home on SQLite. It does not exist yet: the first command makes it.
    pub(crate) fn new() -> Self {
        let folder = scratch();
        fs::create_dir(folder.path().join("user")).expect("a folder can be made");
        let root = folder.path().join("home");
        Self { folder, root, schema: None }
    }

    /// A home on this database; nothing, and a loud word, when it needs a server and none was named.
    pub(crate) fn on(backend: Backend) -> Option<Self> {
        let mut home = Self::new();
        if backend == Backend::Postgres {
            let Ok(url) = std::env::var(POSTGRES) else {
                skip_loudly(&format!("set {POSTGRES} to the address of a throw-away server to run it"));
                return None;
            };
            let unique = home.folder.path().file_name().expect("a folder has a name").to_string_lossy();
            let name = format!("cli_{}", unique.trim_start_matches('.').to_lowercase());
            let name = format!("{name}_{}", std::process::id());
            let schema = Schema { url, name };
            let config = format!(
                "{{ storage: {{ backend: \"postgres\", postgres: {{ url: \"{}\", schema: \"{}\", maxConnections: 2 }} }} }}\n",
                schema.url, schema.name
            );
            home.schema = Some(schema);
            home.write_config(&config);
        }
        Some(home)
    }

    /// The home folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder that holds the home and nothing else but `user`.
    pub(crate) fn around(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.root.join("tidegate.db")
    }

    pub(crate) fn transcripts(&self) -> PathBuf {
        self.root.join("agents/main/sessions")
    }

    pub(crate) fn transcript(&self, session_id: &str) -> PathBuf {
        self.transcripts().join(format!("{session_id}.jsonl"))
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        self.schema.is_none()
    }

    pub(crate) fn write_config(&self, text: &str) {
        fs::create_dir_all(&self.root).expect("the home can be made");
        let path = self.root.join("config.json5");
        fs::write(&path, text).expect("the config can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode can be set");
    }

    pub(crate) fn read_config(&self) -> String {
        fs::read_to_string(self.root.join("config.json5")).expect("the config can be read")
    }

    /// The program with these words, in this home.
    pub(crate) fn call(&self, words: &[&str]) -> Call {
        self.call_as(Path::new(PROGRAM), words)
    }

    /// The same under another name.
    pub(crate) fn call_as(&self, program: &Path, words: &[&str]) -> Call {
        Call::new(program, words)
            .env("TIDEGATE_HOME", &self.root)
            .env("HOME", self.folder.path().join("user"))
    }

    /// A link to the program under another name.
    pub(crate) fn link(&self, name: &str) -> PathBuf {
        let link = self.folder.path().join("user").join(name);
        symlink(PROGRAM, &link).expect("a link can be made");
        link
    }

    /// Asks in the session `main`; the answer's object.
    pub(crate) fn ask(&self, text: &str) -> Value {
        self.call(&["ask", text]).json()
    }

    pub(crate) fn ask_in(&self, session: &str, text: &str) -> Value {
        self.call(&["ask", "--session", session, text]).json()
    }

    /// The sessions as `sessions list --json` tells them.
    pub(crate) fn sessions(&self) -> Vec<Value> {
        let mut list = self.call(&["sessions", "list", "--json", "--limit", "10000"]).json();
        serde_json::from_value(list["sessions"].take()).expect("a list")
    }

    /// The runs as `runs list --json` tells them, the oldest first.
    pub(crate) fn runs(&self) -> Vec<Value> {
        let mut list = self.call(&["runs", "list", "--json", "--limit", "10000"]).json();
        let mut runs: Vec<Value> = serde_json::from_value(list["runs"].take()).expect("a list");
        runs.reverse();
        runs
    }
}

/// A folder in memory where there is one: tests kill the program and never the machine, and a busy disk makes thousands
/// of syncs slow.
fn scratch() -> TempDir {
    let memory = tempfile::tempdir_in("/dev/shm");
    memory.or_else(|_| tempfile::tempdir()).expect("a temporary folder can be made")
}

impl Drop for Home {
    fn drop(&mut self) {
        let Some(Schema { url, name }) = &self.schema else { return };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let dropped = runtime.map(|runtime| {
            runtime.block_on(async {
                let mut connection = PgConnection::connect(url).await?;
                let sql = format!("DROP SCHEMA IF EXISTS {name} CASCADE");
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await?;
                connection.close().await
            })
        });
        if !matches!(dropped, Ok(Ok(()))) {
            eprintln!("the schema {name} could not be dropped: {dropped:?}");
        }
    }
}

/// Every file and folder below, with its mode, relative to `folder`.
pub(crate) fn tree(folder: &Path) -> Vec<(PathBuf, u32, bool)> {
    fn walk(folder: &Path, base: &Path, found: &mut Vec<(PathBuf, u32, bool)>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.map(|entry| entry.expect("a folder can be read")) {
            let path = entry.path();
            let meta = fs::symlink_metadata(&path).expect("a file has metadata");
            let relative = path.strip_prefix(base).expect("it is below").to_owned();
            found.push((relative, meta.permissions().mode() & 0o7777, meta.is_dir()));
            if meta.is_dir() {
                walk(&path, base, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}

/// The plain names below a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    tree(folder).into_iter().map(|(path, _, _)| path.display().to_string()).collect()
}
