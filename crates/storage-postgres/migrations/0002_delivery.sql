-- What networks delivered, and what is on its way to them.

CREATE TABLE inbox (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  id TEXT COLLATE "C" NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  channel TEXT NOT NULL,
  account_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  body_json TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX inbox_by_run ON inbox (tenant_id, run_id);

CREATE TABLE outbox (
  ord BIGSERIAL PRIMARY KEY,       -- the order of commits inside a lane: a clock that jumps cannot reorder it
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  id TEXT COLLATE "C" NOT NULL,
  run_id TEXT COLLATE "C" NOT NULL,
  part BIGINT NOT NULL,
  lane TEXT COLLATE "C" NOT NULL,
  body TEXT NOT NULL,
  state TEXT NOT NULL,
  attempt BIGINT NOT NULL,
  retry_at BIGINT NOT NULL,
  owner_instance TEXT COLLATE "C",
  owner_incarnation BIGINT,
  remote_id TEXT,
  reason TEXT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX outbox_id ON outbox (tenant_id, id);
CREATE INDEX outbox_by_run ON outbox (tenant_id, run_id, part);
-- Only what still has to go out; the smallest ord of a lane is its head.
CREATE INDEX outbox_open ON outbox (tenant_id, lane, ord) WHERE state IN ('pending', 'sending');
-- What an instance is sending, across tenants: recovery reads it at every start.
CREATE INDEX outbox_sending ON outbox (owner_instance) WHERE state = 'sending';

DO $$
DECLARE
  name TEXT;
BEGIN
  FOREACH name IN ARRAY ARRAY['inbox', 'outbox']
  LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY tenant ON %I USING (tenant_id = tidegate_tenant()) WITH CHECK (tenant_id = tidegate_tenant())',
      name);
  END LOOP;
END
$$;

GRANT SELECT, INSERT, DELETE ON inbox TO tidegate_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox TO tidegate_app;
GRANT USAGE ON SEQUENCE outbox_ord_seq TO tidegate_app;

CREATE POLICY crossing ON outbox FOR SELECT TO CURRENT_USER USING (true);
CREATE FUNCTION tidegate_sending(instance TEXT, before_incarnation BIGINT)
  RETURNS TABLE (tenant_id TEXT, id TEXT)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
  SELECT o.tenant_id, o.id FROM outbox o
  WHERE o.owner_instance = instance AND o.owner_incarnation < before_incarnation AND o.state = 'sending'
  ORDER BY o.tenant_id, o.ord
$$;
REVOKE ALL ON FUNCTION tidegate_sending(TEXT, BIGINT) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tidegate_sending(TEXT, BIGINT) TO tidegate_app;
