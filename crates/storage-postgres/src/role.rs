//! The role the verbs run under: `tidegate_app` logs nobody in, owns nothing and cannot step around row-level security.
//!
//! The migrator makes it and lets the connecting user become it; opening checks that it is what it should be. The
//! role belongs to the whole server, so two installations on one server share its name, and each grants it its own
//! schema only.

use sqlx::{AssertSqlSafe, PgConnection, Row as _};
use tidegate_storage::StoreError;

use crate::error::{TxError, TxResult, message, sqlstate};
use crate::rows::column;

/// Makes the role that `user` will work as, if it is missing. Safe when two processes do so at once.
pub(crate) async fn ensure(connection: &mut PgConnection, user: &str) -> TxResult<()> {
    let exists = "SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'tidegate_app')";
    if sqlx::query_scalar(exists).fetch_one(&mut *connection).await? {
        return Ok(());
    }
    match sqlx::query("CREATE ROLE tidegate_app NOLOGIN NOBYPASSRLS").execute(&mut *connection).await {
        Err(error) if !was_first(&error) => Err(explain(error, user)),
        _ => Ok(()),
    }
}

/// Lets `user` become the role.
pub(crate) async fn ensure_member(connection: &mut PgConnection, user: &str) -> TxResult<()> {
    if may_become(connection, user).await? {
        return Ok(());
    }
    let grant: String = sqlx::query_scalar("SELECT format('GRANT tidegate_app TO %I', $1)")
        .bind(user)
        .fetch_one(&mut *connection)
        .await?;
    match sqlx::query(AssertSqlSafe(grant)).execute(&mut *connection).await {
        Err(error) => {
            // Another process may have granted it in between; then all is well.
            if may_become(connection, user).await? { Ok(()) } else { Err(explain(error, user)) }
        }
        Ok(_) => Ok(()),
    }
}

/// Since release 16 membership alone does not let a user become a role.
async fn may_become(connection: &mut PgConnection, user: &str) -> TxResult<bool> {
    let may = sqlx::query_scalar(
        "SELECT pg_has_role($1::name, 'tidegate_app',
           CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END)",
    )
    .bind(user)
    .fetch_one(connection)
    .await?;
    Ok(may)
}

fn was_first(error: &sqlx::Error) -> bool {
    matches!(sqlstate(error).as_deref(), Some("42710" | "23505"))
}

/// Errors of roles and rights say what to grant to the user of the store's URL.
pub(crate) fn explain(error: sqlx::Error, user: &str) -> TxError {
    match sqlstate(&error).as_deref() {
        // Not allowed, or there is no such role or user.
        Some("42501" | "22023" | "42704") => TxError::Store(StoreError::Internal(format!(
            "the Postgres user {user} cannot work as the role tidegate_app ({}). A database administrator can run: \
             CREATE ROLE tidegate_app NOLOGIN; GRANT tidegate_app TO \"{user}\";",
            message(&error)
        ))),
        _ => TxError::Sql(error),
    }
}

/// What decides whether row-level security binds the current role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Facts {
    role: String,
    superuser: bool,
    bypasses: bool,
    /// Tables of the schema that the role owns, itself or through a role it belongs to.
    owned: Vec<String>,
    /// Tenant tables whose row-level security is not enabled and forced.
    unguarded: Vec<String>,
    encoding: String,
}

/// Refuses a role or a schema that would let one tenant see another.
pub(crate) async fn check(connection: &mut PgConnection, schema: &str) -> TxResult<()> {
    let row = sqlx::query(
        "WITH tables AS (
           SELECT c.oid, c.relname::text AS name, c.relowner, c.relrowsecurity AND c.relforcerowsecurity AS guarded
           FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.nspname = $1 AND c.relkind IN ('r', 'p'))
         SELECT r.rolname::text AS role, r.rolsuper, r.rolbypassrls,
           ARRAY(SELECT name FROM tables WHERE pg_has_role(relowner, 'MEMBER') ORDER BY name) AS owned,
           ARRAY(SELECT name FROM tables t WHERE NOT guarded AND EXISTS
             (SELECT 1 FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attname = 'tenant_id')
             ORDER BY name) AS unguarded,
           current_setting('server_encoding') AS encoding,
           (SELECT rolsuper FROM pg_roles WHERE rolname = session_user) AS superuser_behind
         FROM pg_roles r WHERE r.rolname = current_user",
    )
    .bind(schema)
    .fetch_one(connection)
    .await?;
    if row.try_get("superuser_behind")? {
        tracing::warn!(
            "the Postgres user is a superuser: give the gateway a plain user, and the owner in storage.postgres.migrateUrl"
        );
    }
    let facts = Facts {
        role: column(&row, "role")?,
        superuser: column(&row, "rolsuper")?,
        bypasses: column(&row, "rolbypassrls")?,
        owned: column(&row, "owned")?,
        unguarded: column(&row, "unguarded")?,
        encoding: column(&row, "encoding")?,
    };
    judge(&facts).map_err(|reason| StoreError::Internal(reason).into())
}

fn judge(facts: &Facts) -> Result<(), String> {
    let role = &facts.role;
    if facts.superuser {
        return Err(format!(
            "role {role} is a superuser and would see every tenant; run ALTER ROLE {role} NOSUPERUSER"
        ));
    }
    if facts.bypasses {
        return Err(format!(
            "role {role} steps around row-level security; run ALTER ROLE {role} NOBYPASSRLS"
        ));
    }
    if !facts.owned.is_empty() {
        return Err(format!(
            "role {role} owns tables of the store ({}) and could lift row-level security; give them to the migrating user",
            facts.owned.join(", ")
        ));
    }
    if !facts.unguarded.is_empty() {
        return Err(format!(
            "row-level security is off for {}; run ALTER TABLE … ENABLE and FORCE ROW LEVEL SECURITY for each",
            facts.unguarded.join(", ")
        ));
    }
    if facts.encoding != "UTF8" {
        return Err(format!("the database has encoding {}; create it with ENCODING 'UTF8'", facts.encoding));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_role_that_row_level_security_binds_is_let_in() {
        let good = Facts { role: "tidegate_app".into(), encoding: "UTF8".into(), ..Facts::default() };
        assert_eq!(judge(&good), Ok(()));
        for (bad, word) in [
            (Facts { superuser: true, ..good.clone() }, "superuser"),
            (Facts { bypasses: true, ..good.clone() }, "NOBYPASSRLS"),
            (Facts { owned: vec!["runs".into()], ..good.clone() }, "owns tables of the store (runs)"),
            (Facts { unguarded: vec!["runs".into()], ..good.clone() }, "off for runs"),
            (Facts { encoding: "SQL_ASCII".into(), ..good.clone() }, "SQL_ASCII"),
        ] {
            assert!(judge(&bad).unwrap_err().contains(word), "{bad:?}");
        }
    }
}
