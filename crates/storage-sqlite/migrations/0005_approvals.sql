-- Questions to people before a tool runs, and the rules they saved.

CREATE TABLE approvals (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  id TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  session_key TEXT NOT NULL,
  run_id TEXT,
  call_id TEXT NOT NULL,
  tool TEXT NOT NULL,
  digest TEXT NOT NULL,            -- what the answer is bound to
  requester TEXT NOT NULL,
  question_json TEXT NOT NULL,
  state TEXT NOT NULL,             -- pending | approved | denied | expired | cancelled | used
  answered_by TEXT,
  answer_reason TEXT,
  answer_rule TEXT,                -- the rule that was saved with a yes
  answered_at INTEGER,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
-- Only what is open: the end of a run and the clock look here, and find it empty most of the time.
CREATE INDEX approvals_open ON approvals (tenant_id, run_id) WHERE state IN ('pending', 'approved');
CREATE INDEX approvals_due ON approvals (tenant_id, expires_at) WHERE state IN ('pending', 'approved');
CREATE INDEX approvals_settled ON approvals (tenant_id, updated_at)
  WHERE state IN ('denied', 'expired', 'cancelled', 'used');
CREATE INDEX approvals_by_session ON approvals (tenant_id, session_key);

CREATE TABLE allow_rules (
  tenant_id TEXT NOT NULL CHECK (tenant_id <> ''),
  id TEXT NOT NULL,
  workspace_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  tool TEXT NOT NULL,
  matches_json TEXT NOT NULL,
  created_by TEXT NOT NULL,
  approval_id TEXT,
  created_at INTEGER NOT NULL,
  last_used_at INTEGER,
  PRIMARY KEY (tenant_id, id)
) WITHOUT ROWID;
CREATE INDEX allow_rules_by_agent ON allow_rules (tenant_id, workspace_id, agent_id);
