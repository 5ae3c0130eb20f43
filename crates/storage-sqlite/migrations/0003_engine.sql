-- What the engine needs to run queues, lanes and cursors, to forget in time, and to seal the audit trail.

-- Who accepted the run: one whose caller waits ends with that process. NULL: accepted by an older release.
ALTER TABLE runs ADD COLUMN owner_instance TEXT;
ALTER TABLE runs ADD COLUMN owner_incarnation INTEGER;
-- Its key in `idempotency`, so that both go together.
ALTER TABLE runs ADD COLUMN idempotency_key TEXT;
ALTER TABLE runs ADD COLUMN ephemeral INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_ephemeral ON runs (tenant_id, session_key) WHERE ephemeral = 1;

-- When a session that may be forgotten began; NULL for all others. It never changes, so its index costs only once.
ALTER TABLE session_keys ADD COLUMN ephemeral_since INTEGER;
CREATE INDEX session_keys_ephemeral ON session_keys (tenant_id, ephemeral_since) WHERE ephemeral_since IS NOT NULL;
-- Only sessions with a run under way.
CREATE INDEX session_keys_held ON session_keys (tenant_id, session_key) WHERE active_run IS NOT NULL;

ALTER TABLE outbox ADD COLUMN channel TEXT NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN account_id TEXT NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN told_at INTEGER;      -- when the owner was told that it failed
ALTER TABLE outbox ADD COLUMN requeued_at INTEGER;  -- when a person wanted it sent again
UPDATE outbox SET
  channel = coalesce((SELECT json_extract(r.reply_json, '$.channel') FROM runs r
    WHERE r.tenant_id = outbox.tenant_id AND r.id = outbox.run_id AND json_valid(r.reply_json)), ''),
  account_id = coalesce((SELECT json_extract(r.reply_json, '$.accountId') FROM runs r
    WHERE r.tenant_id = outbox.tenant_id AND r.id = outbox.run_id AND json_valid(r.reply_json)), '');
-- An older release that opens this data writes parts without these columns.
CREATE TRIGGER outbox_of_older_release AFTER INSERT ON outbox WHEN NEW.channel = '' BEGIN
  UPDATE outbox SET
    channel = coalesce((SELECT json_extract(r.reply_json, '$.channel') FROM runs r
      WHERE r.tenant_id = NEW.tenant_id AND r.id = NEW.run_id AND json_valid(r.reply_json)), ''),
    account_id = coalesce((SELECT json_extract(r.reply_json, '$.accountId') FROM runs r
      WHERE r.tenant_id = NEW.tenant_id AND r.id = NEW.run_id AND json_valid(r.reply_json)), '')
  WHERE ord = NEW.ord;
END;
CREATE INDEX outbox_sending ON outbox (tenant_id, lane) WHERE state = 'sending';
CREATE INDEX outbox_untold ON outbox (tenant_id, ord) WHERE state IN ('dead', 'unknown') AND told_at IS NULL;
CREATE INDEX outbox_settled ON outbox (tenant_id, updated_at)
  WHERE state IN ('sent', 'dropped', 'dead', 'unknown');

CREATE INDEX inbox_by_age ON inbox (tenant_id, created_at);
CREATE INDEX idempotency_by_age ON idempotency (tenant_id, expires_at);

-- How far each account's network was read.
CREATE TABLE cursors (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  channel TEXT NOT NULL,
  account_id TEXT NOT NULL,
  value TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, channel, account_id)
) WITHOUT ROWID;

-- NULL until a seal covers the row.
ALTER TABLE audit_logs ADD COLUMN seal INTEGER;
ALTER TABLE audit_logs ADD COLUMN salt TEXT;
ALTER TABLE audit_logs ADD COLUMN digest TEXT;
CREATE INDEX audit_by_seal ON audit_logs (tenant_id, seal, ord);

CREATE TABLE audit_seals (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  number INTEGER NOT NULL,
  rows INTEGER NOT NULL,
  chain TEXT NOT NULL,
  sealed_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, number)
) WITHOUT ROWID;
