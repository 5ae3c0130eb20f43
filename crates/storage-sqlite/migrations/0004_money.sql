-- What model calls used, what budgets have seen, and how credentials stand.

-- In the order of their times: the reports and the sweeper read ranges, a call is one row at the end and no other index.
CREATE TABLE model_calls (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  started_at INTEGER NOT NULL,
  id TEXT NOT NULL,
  run_id TEXT,
  session_key TEXT,
  agent TEXT NOT NULL,
  purpose TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  profile_id TEXT,
  token_input INTEGER NOT NULL,
  token_output INTEGER NOT NULL,
  token_cache_read INTEGER NOT NULL,
  token_cache_write INTEGER NOT NULL,
  cost INTEGER NOT NULL,           -- billionths of a US dollar
  estimated INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  day TEXT NOT NULL,               -- in the tenant's zone
  PRIMARY KEY (tenant_id, started_at, id)
) WITHOUT ROWID;

CREATE TABLE budget_usage (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  scope TEXT NOT NULL,
  period TEXT NOT NULL,            -- day:2026-11-16 | month:2026-11
  tokens_spent INTEGER NOT NULL DEFAULT 0,
  tokens_reserved INTEGER NOT NULL DEFAULT 0,
  cost_spent INTEGER NOT NULL DEFAULT 0,
  cost_reserved INTEGER NOT NULL DEFAULT 0,
  rejected INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant_id, scope, period)
) WITHOUT ROWID;
-- Neither of its columns ever changes: a turn does not touch it.
CREATE INDEX budget_usage_by_period ON budget_usage (tenant_id, period);

CREATE TABLE model_standings (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  provider TEXT NOT NULL,
  profile_id TEXT NOT NULL,
  model TEXT NOT NULL,             -- '' for all models of the credential
  errors INTEGER NOT NULL,
  reason TEXT,
  cooldown_until INTEGER,
  disabled_until INTEGER,
  billing_failures INTEGER NOT NULL,
  last_failure_at INTEGER,
  last_used_at INTEGER,
  PRIMARY KEY (tenant_id, provider, profile_id, model)
) WITHOUT ROWID;

-- What the run holds of its budgets, or why it may not begin, or which soft limits it exceeds.
ALTER TABLE runs ADD COLUMN reservation_json TEXT;
ALTER TABLE runs ADD COLUMN refusal_json TEXT;
ALTER TABLE runs ADD COLUMN over_budget_json TEXT;
-- used | returned | as_reserved | metered. NULL while it holds its reservation.
ALTER TABLE runs ADD COLUMN settled TEXT;
-- Only runs that hold something: the sweeper finds those that an older release ended.
CREATE INDEX runs_reserved ON runs (tenant_id, id) WHERE reservation_json IS NOT NULL AND settled IS NULL;
