-- Sessions, runs and the log. The migrator sets search_path, so nothing here names its schema.
-- Ids and keys compare byte by byte (COLLATE "C"): the same order on every server, and the cheapest.

-- Who the current transaction works for. Raises instead of answering NULL: a forgotten tenant must be an error,
-- never an empty result. STABLE, so that an index scan asks once.
CREATE FUNCTION tidegate_tenant() RETURNS TEXT LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
  tenant CONSTANT TEXT := pg_catalog.current_setting('tidegate.tenant', true);
BEGIN
  IF tenant IS NULL OR tenant = '' THEN
    RAISE EXCEPTION 'tidegate.tenant is not set in this transaction' USING ERRCODE = 'insufficient_privilege';
  END IF;
  RETURN tenant;
END
$$;

-- The one clock that all instances share, in milliseconds since the epoch.
CREATE FUNCTION database_now() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$
  SELECT floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint
$$;

CREATE TABLE instances (
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  incarnation BIGINT NOT NULL,
  heartbeat_at BIGINT NOT NULL     -- by the database's clock
);

-- One row a session key: the row every run write of the session touches first.
CREATE TABLE session_keys (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  session_key TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C",     -- the current log; set when its first run completes
  fence BIGINT NOT NULL,
  active_run TEXT COLLATE "C",
  owner_instance TEXT COLLATE "C",
  owner_incarnation BIGINT,
  next_queue BIGINT NOT NULL,      -- the place in the queue the next run gets
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, session_key)
);
-- What an instance holds, across tenants: recovery reads it at every start.
CREATE INDEX session_keys_held ON session_keys (owner_instance) WHERE active_run IS NOT NULL;

-- One row a log.
CREATE TABLE sessions (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  id TEXT COLLATE "C" NOT NULL,
  workspace_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  session_key TEXT COLLATE "C" NOT NULL,
  alias TEXT COLLATE "C",
  channel TEXT,
  peer_key TEXT,
  thread_key TEXT,
  state TEXT NOT NULL,             -- open | current | closed
  head_seq BIGINT NOT NULL,
  head_entry TEXT COLLATE "C" NOT NULL,
  floor_seq BIGINT NOT NULL DEFAULT 0,
  mirrored_seq BIGINT NOT NULL DEFAULT 0,
  mirrored_bytes BIGINT NOT NULL DEFAULT 0,
  mirrored_checksum BIGINT NOT NULL DEFAULT 0,
  route TEXT,
  provider TEXT,
  profile_id TEXT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
CREATE UNIQUE INDEX sessions_alias ON sessions (tenant_id, alias) WHERE alias IS NOT NULL;
CREATE INDEX sessions_by_key ON sessions (tenant_id, session_key);
-- Empty almost always: lists the logs whose transcript file lags.
CREATE INDEX sessions_behind ON sessions (tenant_id, id) WHERE head_seq > mirrored_seq;

CREATE TABLE entries (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  session_id TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  parent_id TEXT COLLATE "C",
  run_id TEXT COLLATE "C" NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, session_id, seq)
);

CREATE TABLE runs (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  id TEXT COLLATE "C" NOT NULL,
  client_key TEXT COLLATE "C",
  session_key TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C",     -- the log, once claimed
  new_session_id TEXT COLLATE "C" NOT NULL, -- the log to begin where none is current or a fresh one is wanted
  new_session_alias TEXT COLLATE "C",
  fresh BOOLEAN NOT NULL,
  state TEXT NOT NULL,
  queue BIGINT NOT NULL,
  attempt BIGINT NOT NULL,
  actor TEXT NOT NULL,
  spec_json TEXT NOT NULL,
  input_json TEXT NOT NULL,
  reply_json TEXT NOT NULL,
  error_json TEXT,
  token_input BIGINT NOT NULL DEFAULT 0,
  token_output BIGINT NOT NULL DEFAULT 0,
  token_cache_read BIGINT NOT NULL DEFAULT 0,
  token_cache_write BIGINT NOT NULL DEFAULT 0,
  cost BIGINT NOT NULL DEFAULT 0,  -- millionths of a US dollar
  first_seq BIGINT,
  last_seq BIGINT,
  created_at BIGINT NOT NULL,
  started_at BIGINT,
  finished_at BIGINT,
  PRIMARY KEY (tenant_id, id)
);
-- Only waiting runs: a run that is claimed with its acceptance never touches it.
CREATE INDEX runs_queue ON runs (tenant_id, session_key, queue) WHERE state = 'queued';
-- Lists, lookups and deletion stay cheap with many sessions in one tenant.
CREATE INDEX runs_recent ON runs (tenant_id, created_at, id);
CREATE INDEX runs_by_key ON runs (tenant_id, session_key, created_at, id);
CREATE INDEX runs_by_client_key ON runs (tenant_id, client_key, created_at, id) WHERE client_key IS NOT NULL;

CREATE TABLE tool_runs (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  id TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  step BIGINT NOT NULL,            -- the order of intents inside the run, from 1
  call_id TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  args_json TEXT NOT NULL,
  result_json TEXT,
  status TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, run_id, step)
);

CREATE TABLE idempotency (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  key_hash TEXT COLLATE "C" NOT NULL,
  fingerprint TEXT NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, key_hash)
);

-- Kept in the order of writing: a clock that jumps cannot reorder it.
CREATE TABLE audit_logs (
  ord BIGINT GENERATED ALWAYS AS IDENTITY,
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  id TEXT COLLATE "C" NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  resource_type TEXT NOT NULL,
  resource_id TEXT NOT NULL,
  metadata_json TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, ord)
);

-- Every tenant table: rows of other tenants do not exist, for the owner neither.
DO $$
DECLARE
  name TEXT;
BEGIN
  FOREACH name IN ARRAY ARRAY['session_keys', 'sessions', 'entries', 'runs', 'tool_runs', 'idempotency', 'audit_logs']
  LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY tenant ON %I USING (tenant_id = tidegate_tenant()) WITH CHECK (tenant_id = tidegate_tenant())',
      name);
  END LOOP;
END
$$;

-- The app role gets what the verbs need and no more: the log and the audit trail cannot be rewritten.
GRANT SELECT, INSERT, UPDATE ON instances TO tidegate_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON session_keys, sessions, runs, tool_runs, idempotency TO tidegate_app;
GRANT SELECT, INSERT, DELETE ON entries TO tidegate_app;
GRANT SELECT, INSERT ON audit_logs TO tidegate_app;

-- The only view across tenants: ids of what earlier incarnations of an instance hold. It runs as the owner, who may
-- read (not write) this one table across tenants, with a search_path nobody can change.
CREATE POLICY crossing ON session_keys FOR SELECT TO CURRENT_USER USING (true);
CREATE FUNCTION tidegate_held(instance TEXT, before_incarnation BIGINT)
  RETURNS TABLE (tenant_id TEXT, session_key TEXT, run_id TEXT)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
  SELECT k.tenant_id, k.session_key, k.active_run FROM session_keys k
  WHERE k.owner_instance = instance AND k.owner_incarnation < before_incarnation AND k.active_run IS NOT NULL
  ORDER BY k.tenant_id, k.session_key
$$;
REVOKE ALL ON FUNCTION tidegate_held(TEXT, BIGINT) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tidegate_held(TEXT, BIGINT) TO tidegate_app;
