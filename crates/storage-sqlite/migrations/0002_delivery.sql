-- What networks delivered, and what is on its way to them.

CREATE TABLE inbox (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  channel TEXT NOT NULL,
  account_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  body_json TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, id)
) WITHOUT ROWID;

CREATE TABLE outbox (
  ord INTEGER PRIMARY KEY,         -- the order of commits: a clock that jumps cannot reorder a lane
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  part INTEGER NOT NULL,
  lane TEXT NOT NULL,
  body TEXT NOT NULL,
  state TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  retry_at INTEGER NOT NULL,
  owner_instance TEXT,
  owner_incarnation INTEGER,
  remote_id TEXT,
  reason TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX outbox_id ON outbox (tenant_id, id);
CREATE INDEX outbox_by_run ON outbox (tenant_id, run_id, part);
-- Only what still has to go out; the smallest ord of a lane is its head.
CREATE INDEX outbox_open ON outbox (tenant_id, lane, ord) WHERE state IN ('pending', 'sending');
