-- Questions to people before a tool runs, and the rules they saved.

CREATE TABLE approvals (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  id TEXT COLLATE "C" NOT NULL,
  workspace_id TEXT COLLATE "C" NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  session_key TEXT COLLATE "C" NOT NULL,
  run_id TEXT COLLATE "C",
  call_id TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL, -- what the answer is bound to
  requester TEXT NOT NULL,
  question_json TEXT NOT NULL,
  state TEXT NOT NULL,             -- pending | approved | denied | expired | cancelled | used
  answered_by TEXT,
  answer_reason TEXT,
  answer_rule TEXT COLLATE "C",    -- the rule that was saved with a yes
  answered_at BIGINT,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
-- Only what is open: the end of a run and the clock look here, and find it empty most of the time.
CREATE INDEX approvals_open ON approvals (tenant_id, run_id) WHERE state IN ('pending', 'approved');
CREATE INDEX approvals_due ON approvals (tenant_id, expires_at) WHERE state IN ('pending', 'approved');
CREATE INDEX approvals_settled ON approvals (tenant_id, updated_at)
  WHERE state IN ('denied', 'expired', 'cancelled', 'used');
CREATE INDEX approvals_by_session ON approvals (tenant_id, session_key);

CREATE TABLE allow_rules (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  id TEXT COLLATE "C" NOT NULL,
  workspace_id TEXT COLLATE "C" NOT NULL,
  agent_id TEXT COLLATE "C" NOT NULL,
  tool TEXT COLLATE "C" NOT NULL,
  matches_json TEXT NOT NULL,
  created_by TEXT NOT NULL,
  approval_id TEXT COLLATE "C",
  created_at BIGINT NOT NULL,
  last_used_at BIGINT,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX allow_rules_by_agent ON allow_rules (tenant_id, workspace_id, agent_id);

DO $$
DECLARE
  name TEXT;
BEGIN
  FOREACH name IN ARRAY ARRAY['approvals', 'allow_rules']
  LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY tenant ON %I USING (tenant_id = tidegate_tenant()) WITH CHECK (tenant_id = tidegate_tenant())',
      name);
  END LOOP;
END
$$;

-- What was asked is never rewritten, only what became of it.
GRANT SELECT, INSERT, DELETE ON approvals TO tidegate_app;
GRANT UPDATE (state, answered_by, answer_reason, answer_rule, answered_at, updated_at) ON approvals TO tidegate_app;
GRANT SELECT, INSERT, DELETE ON allow_rules TO tidegate_app;
GRANT UPDATE (last_used_at) ON allow_rules TO tidegate_app;
