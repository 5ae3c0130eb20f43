-- Sessions, runs and the log.

CREATE TABLE instances (
  id TEXT NOT NULL PRIMARY KEY,
  incarnation INTEGER NOT NULL,
  heartbeat_at INTEGER NOT NULL
) WITHOUT ROWID;

-- One row a session key: the row every run write of the session touches first.
CREATE TABLE session_keys (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  session_key TEXT NOT NULL,
  session_id TEXT,                 -- the current log; set when its first run completes
  fence INTEGER NOT NULL,
  active_run TEXT,
  owner_instance TEXT,
  owner_incarnation INTEGER,
  next_queue INTEGER NOT NULL,     -- the place in the queue the next run gets
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, session_key)
) WITHOUT ROWID;

-- One row a log.
CREATE TABLE sessions (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  id TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  session_key TEXT NOT NULL,
  alias TEXT,
  channel TEXT,
  peer_key TEXT,
  thread_key TEXT,
  state TEXT NOT NULL,             -- open | current | closed
  head_seq INTEGER NOT NULL,
  head_entry TEXT NOT NULL,
  floor_seq INTEGER NOT NULL DEFAULT 0,
  mirrored_seq INTEGER NOT NULL DEFAULT 0,
  mirrored_bytes INTEGER NOT NULL DEFAULT 0,
  mirrored_checksum INTEGER NOT NULL DEFAULT 0,
  route TEXT,
  provider TEXT,
  profile_id TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX sessions_alias ON sessions (tenant_id, alias) WHERE alias IS NOT NULL;
CREATE INDEX sessions_by_key ON sessions (tenant_id, session_key);
-- Empty almost always: lists the logs whose transcript file lags.
CREATE INDEX sessions_behind ON sessions (tenant_id, id) WHERE head_seq > mirrored_seq;

CREATE TABLE entries (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  session_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  id TEXT NOT NULL,
  parent_id TEXT,
  run_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, session_id, seq)
) WITHOUT ROWID;

CREATE TABLE runs (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  id TEXT NOT NULL,
  client_key TEXT,
  session_key TEXT NOT NULL,
  session_id TEXT,                 -- the log, once claimed
  new_session_id TEXT NOT NULL,    -- the log to begin where none is current or a fresh one is wanted
  new_session_alias TEXT,
  fresh INTEGER NOT NULL,
  state TEXT NOT NULL,
  queue INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  actor TEXT NOT NULL,
  spec_json TEXT NOT NULL,
  input_json TEXT NOT NULL,
  reply_json TEXT NOT NULL,
  error_json TEXT,
  token_input INTEGER NOT NULL DEFAULT 0,
  token_output INTEGER NOT NULL DEFAULT 0,
  token_cache_read INTEGER NOT NULL DEFAULT 0,
  token_cache_write INTEGER NOT NULL DEFAULT 0,
  cost INTEGER NOT NULL DEFAULT 0, -- millionths of a US dollar
  first_seq INTEGER,
  last_seq INTEGER,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  PRIMARY KEY (tenant_id, id)
) WITHOUT ROWID;
-- Only waiting runs: a run that is claimed with its acceptance never touches it.
CREATE INDEX runs_queue ON runs (tenant_id, session_key, queue) WHERE state = 'queued';

CREATE TABLE tool_runs (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  step INTEGER NOT NULL,           -- the order of intents inside the run, from 1
  call_id TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  args_json TEXT NOT NULL,
  result_json TEXT,
  status TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, run_id, step)
) WITHOUT ROWID;

CREATE TABLE idempotency (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  key_hash TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  run_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, key_hash)
) WITHOUT ROWID;

-- Kept in the order of commits: a clock that jumps cannot reorder it.
CREATE TABLE audit_logs (
  ord INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  id TEXT NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  resource_type TEXT NOT NULL,
  resource_id TEXT NOT NULL,
  metadata_json TEXT NOT NULL,
  created_at INTEGER NOT NULL
);
