-- What the engine needs to run queues, lanes and cursors, to forget in time, and to seal the audit trail.

-- Who accepted the run: one whose caller waits ends with that process. NULL: accepted by an older release.
ALTER TABLE runs ADD COLUMN owner_instance TEXT COLLATE "C";
ALTER TABLE runs ADD COLUMN owner_incarnation BIGINT;
-- Its key in `idempotency`, so that both go together.
ALTER TABLE runs ADD COLUMN idempotency_key TEXT COLLATE "C";

-- When a session that may be forgotten began; NULL for all others. It never changes: an index on `updated_at` would
-- make every write of every session dearer.
ALTER TABLE session_keys ADD COLUMN ephemeral_since BIGINT;
CREATE INDEX session_keys_ephemeral ON session_keys (tenant_id, ephemeral_since) WHERE ephemeral_since IS NOT NULL;

ALTER TABLE outbox ADD COLUMN channel TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN account_id TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN told_at BIGINT;      -- when the owner was told that it failed
ALTER TABLE outbox ADD COLUMN requeued_at BIGINT;  -- when a person wanted it sent again

-- A field of a stored reply target; '' where it has none. Where the server refuses to read a target because another
-- field of it holds a character that its texts cannot, the field is looked for.
CREATE FUNCTION tidegate_reply_field(reply TEXT, field TEXT) RETURNS TEXT LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN coalesce(reply::json ->> field, '');
EXCEPTION WHEN data_exception THEN
  RETURN coalesce(substring(reply FROM '"' || field || '":"([^"\\]*)"'), '');
END
$$;
-- An older release that opens this data writes parts without these columns.
CREATE FUNCTION tidegate_outbox_of_older_release() RETURNS TRIGGER LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  reply TEXT;
BEGIN
  SELECT r.reply_json INTO reply FROM runs r WHERE r.tenant_id = NEW.tenant_id AND r.id = NEW.run_id;
  NEW.channel := tidegate_reply_field(reply, 'channel');
  NEW.account_id := tidegate_reply_field(reply, 'accountId');
  RETURN NEW;
END
$$;
CREATE TRIGGER older_release BEFORE INSERT ON outbox FOR EACH ROW WHEN (NEW.channel = '')
  EXECUTE FUNCTION tidegate_outbox_of_older_release();
-- Tenant by tenant: row-level security binds the owner of the tables too.
DO $$
DECLARE
  tenant TEXT;
BEGIN
  FOR tenant IN SELECT DISTINCT tenant_id FROM outbox LOOP
    PERFORM set_config('tidegate.tenant', tenant, true);
    UPDATE outbox o SET channel = tidegate_reply_field(r.reply_json, 'channel'),
      account_id = tidegate_reply_field(r.reply_json, 'accountId')
    FROM runs r WHERE o.tenant_id = tenant AND r.tenant_id = tenant AND r.id = o.run_id;
  END LOOP;
  PERFORM set_config('tidegate.tenant', '', true);
END
$$;
CREATE INDEX outbox_sending_lane ON outbox (tenant_id, lane) WHERE state = 'sending';
CREATE INDEX outbox_untold ON outbox (tenant_id, ord) WHERE state IN ('dead', 'unknown') AND told_at IS NULL;
CREATE INDEX outbox_settled ON outbox (tenant_id, updated_at)
  WHERE state IN ('sent', 'dropped', 'dead', 'unknown');

CREATE INDEX inbox_by_age ON inbox (tenant_id, created_at);
CREATE INDEX idempotency_by_age ON idempotency (tenant_id, expires_at);

-- How far each account's network was read.
CREATE TABLE cursors (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  channel TEXT COLLATE "C" NOT NULL,
  account_id TEXT COLLATE "C" NOT NULL,
  value TEXT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, channel, account_id)
);

-- NULL until a seal covers the row.
ALTER TABLE audit_logs ADD COLUMN seal BIGINT;
ALTER TABLE audit_logs ADD COLUMN salt TEXT COLLATE "C";
ALTER TABLE audit_logs ADD COLUMN digest TEXT COLLATE "C";
CREATE INDEX audit_by_seal ON audit_logs (tenant_id, seal, ord);

CREATE TABLE audit_seals (
  tenant_id TEXT COLLATE "C" NOT NULL CHECK (tenant_id <> ''),
  number BIGINT NOT NULL,
  rows BIGINT NOT NULL,
  chain TEXT COLLATE "C" NOT NULL,
  sealed_at BIGINT NOT NULL,
  PRIMARY KEY (tenant_id, number)
);

DO $$
DECLARE
  name TEXT;
BEGIN
  FOREACH name IN ARRAY ARRAY['cursors', 'audit_seals']
  LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format(
      'CREATE POLICY tenant ON %I USING (tenant_id = tidegate_tenant()) WITH CHECK (tenant_id = tidegate_tenant())',
      name);
  END LOOP;
END
$$;

-- What an audit row says still cannot be rewritten, and neither can a seal.
GRANT SELECT, INSERT, UPDATE ON cursors TO tidegate_app;
GRANT UPDATE (seal, salt, digest) ON audit_logs TO tidegate_app;
GRANT SELECT, INSERT ON audit_seals TO tidegate_app;

-- Sessions with a waiting run that an earlier incarnation of an instance, or an older release, accepted for its caller.
-- Runs hold what people said, so the owner may not read them across tenants either: one tenant after another, found
-- through the index of session keys.
CREATE FUNCTION tidegate_abandoned(instance TEXT, before_incarnation BIGINT)
  RETURNS TABLE (tenant_id TEXT, session_key TEXT)
  LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
  tenant TEXT;
  asked_for CONSTANT TEXT := coalesce(current_setting('tidegate.tenant', true), '');
BEGIN
  FOR tenant IN
    WITH RECURSIVE tenants AS (
      (SELECT k.tenant_id AS name FROM session_keys k ORDER BY k.tenant_id LIMIT 1)
      UNION ALL
      SELECT (SELECT k.tenant_id FROM session_keys k WHERE k.tenant_id > t.name ORDER BY k.tenant_id LIMIT 1)
      FROM tenants t WHERE t.name IS NOT NULL)
    SELECT t.name FROM tenants t WHERE t.name IS NOT NULL
  LOOP
    PERFORM set_config('tidegate.tenant', tenant, true);
    RETURN QUERY SELECT DISTINCT r.tenant_id, r.session_key FROM runs r
      WHERE r.tenant_id = tenant AND r.state = 'queued' AND r.reply_json LIKE '{"to":"caller"%'
        AND (r.owner_instance IS NULL OR (r.owner_instance = instance AND r.owner_incarnation < before_incarnation))
      ORDER BY r.tenant_id, r.session_key;
  END LOOP;
  PERFORM set_config('tidegate.tenant', asked_for, true);
END
$$;
REVOKE ALL ON FUNCTION tidegate_abandoned(TEXT, BIGINT) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tidegate_abandoned(TEXT, BIGINT) TO tidegate_app;
