-- What runs with tools need: forks, summaries, messages that join a run, runs that start runs.

ALTER TABLE sessions ADD COLUMN title TEXT;
-- A fork reads its parent's lines up to fork_seq and its own after it.
ALTER TABLE sessions ADD COLUMN parent_id TEXT COLLATE "C";
ALTER TABLE sessions ADD COLUMN fork_seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN compactions BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN flushed_at BIGINT;
ALTER TABLE sessions ADD COLUMN flushed_compactions BIGINT; -- the count of compactions at that time
ALTER TABLE sessions ADD COLUMN token_input BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN token_output BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN token_cache_read BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN token_cache_write BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN cost BIGINT NOT NULL DEFAULT 0; -- billionths of a US dollar
ALTER TABLE sessions ADD COLUMN context_tokens BIGINT NOT NULL DEFAULT 0;
CREATE INDEX sessions_by_parent ON sessions (tenant_id, parent_id) WHERE parent_id IS NOT NULL;

ALTER TABLE session_keys ADD COLUMN settings_json TEXT;

ALTER TABLE runs ADD COLUMN join_mode TEXT;        -- steer | note | followUp
ALTER TABLE runs ADD COLUMN joined_run TEXT COLLATE "C";       -- the run that took its message in
ALTER TABLE runs ADD COLUMN parent_run TEXT COLLATE "C";       -- the run that started it
ALTER TABLE runs ADD COLUMN fresh_before BIGINT;  -- a current log last written before then is not gone on with
CREATE INDEX runs_by_session ON runs (tenant_id, session_key, created_at, id);
CREATE INDEX runs_open ON runs (tenant_id, state) WHERE state IN ('queued', 'running');
CREATE INDEX runs_by_parent ON runs (tenant_id, parent_run) WHERE parent_run IS NOT NULL;

-- Only summaries: the newest one of a log is found however long the log is.
CREATE INDEX entries_compactions ON entries (tenant_id, session_id, seq) WHERE kind = 'compaction';

CREATE INDEX model_calls_by_run ON model_calls (tenant_id, run_id) WHERE run_id IS NOT NULL;
