-- What model calls used, what budgets have seen, and how credentials stand.

-- In the order of their times: the reports and the sweeper read ranges, and a call costs one row and one index.
CREATE TABLE model_calls (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  started_at BIGINT NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  run_id TEXT COLLATE "C",
  session_key TEXT COLLATE "C",
  agent TEXT COLLATE "C" NOT NULL,
  purpose TEXT NOT NULL,
  provider TEXT COLLATE "C" NOT NULL,
  model TEXT COLLATE "C" NOT NULL,
  profile_id TEXT COLLATE "C",
  token_input BIGINT NOT NULL,
  token_output BIGINT NOT NULL,
  token_cache_read BIGINT NOT NULL,
  token_cache_write BIGINT NOT NULL,
  cost BIGINT NOT NULL,            -- billionths of a US dollar
  estimated BOOLEAN NOT NULL,
  outcome TEXT NOT NULL,
  day TEXT COLLATE "C" NOT NULL,   -- in the tenant's zone
  PRIMARY KEY (tenant_id, started_at, id)
);

CREATE TABLE budget_usage (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  scope TEXT COLLATE "C" NOT NULL,
  period TEXT COLLATE "C" NOT NULL, -- day:2026-11-16 | month:2026-11
  tokens_spent BIGINT NOT NULL DEFAULT 0,
  tokens_reserved BIGINT NOT NULL DEFAULT 0,
  cost_spent BIGINT NOT NULL DEFAULT 0,
  cost_reserved BIGINT NOT NULL DEFAULT 0,
  rejected BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant_id, scope, period)
) WITH (fillfactor = 70);          -- every turn changes the same few rows: room to do so in place
-- Neither of its columns ever changes: a turn does not touch it.
CREATE INDEX budget_usage_by_period ON budget_usage (tenant_id, period);

CREATE TABLE model_standings (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  provider TEXT COLLATE "C" NOT NULL,
  profile_id TEXT COLLATE "C" NOT NULL,
  model TEXT COLLATE "C" NOT NULL, -- '' for all models of the credential
  errors BIGINT NOT NULL,
  reason TEXT,
  cooldown_until BIGINT,
  disabled_until BIGINT,
  billing_failures BIGINT NOT NULL,
  last_failure_at BIGINT,
  last_used_at BIGINT,
  PRIMARY KEY (tenant_id, provider, profile_id, model)
);

-- What the run holds of its budgets, or why it may not begin, or which soft limits it exceeds.
ALTER TABLE runs ADD COLUMN reservation_json TEXT;
ALTER TABLE runs ADD COLUMN refusal_json TEXT;
ALTER TABLE runs ADD COLUMN over_budget_json TEXT;
-- used | returned | as_reserved | metered. NULL while it holds its reservation.
ALTER TABLE runs ADD COLUMN settled TEXT;
-- Only runs that hold something: the sweeper finds those that an older release ended.
CREATE INDEX runs_reserved ON runs (tenant_id, id) WHERE reservation_json IS NOT NULL AND settled IS NULL;

DO $$
DECLARE
  name TEXT;
BEGIN
  FOREACH name IN ARRAY ARRAY['model_calls', 'budget_usage', 'model_standings']
  LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY tenant ON %I USING (tenant_id = tidegate_tenant()) WITH CHECK (tenant_id = tidegate_tenant())',
      name);
  END LOOP;
END
$$;

-- A call that is written down is not rewritten.
GRANT SELECT, INSERT, DELETE ON model_calls TO tidegate_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON budget_usage, model_standings TO tidegate_app;
