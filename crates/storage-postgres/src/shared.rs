//! Lines that a fork of another key still reads when their own key goes.

use sqlx::PgConnection;

use crate::error::TxResult;

/// Gives logs of the key that a log of another key was forked from to that one's key, cut to what the forks share. They
/// are listed no more, and go with their last heir. Call before the key's logs are removed, with the key's row locked.
pub(crate) async fn keep_shared(transaction: &mut PgConnection, tenant: &str, key: &str) -> TxResult<()> {
    // Whoever forks one of them right now is waited for; whoever comes later finds what stays.
    sqlx::query("SELECT 1 FROM sessions WHERE tenant_id = $1 AND session_key = $2 ORDER BY id FOR UPDATE")
        .bind(tenant)
        .bind(key)
        .execute(&mut *transaction)
        .await?;
    let mut kept = Vec::new();
    // A log that stays has a parent that must stay too.
    loop {
        let given = give(transaction, tenant, key).await?;
        if given.is_empty() {
            break;
        }
        kept.extend(given);
    }
    for id in &kept {
        cut(transaction, tenant, key, id).await?;
    }
    Ok(())
}

/// Gives away what has an heir, one generation at once.
async fn give(transaction: &mut PgConnection, tenant: &str, key: &str) -> TxResult<Vec<String>> {
    // An heir that is being removed right now is none in the end.
    sqlx::query(
        "SELECT 1 FROM sessions c JOIN sessions p ON p.tenant_id = c.tenant_id AND p.id = c.parent_id
         WHERE p.tenant_id = $1 AND p.session_key = $2 AND c.session_key <> $2 ORDER BY c.id FOR SHARE OF c",
    )
    .bind(tenant)
    .bind(key)
    .execute(&mut *transaction)
    .await?;
    let given = sqlx::query_scalar(
        "UPDATE sessions p SET state = 'shared', alias = NULL, mirrored_seq = 9223372036854775807,
           session_key = heir.session_key
         FROM (SELECT parent_id, min(session_key) AS session_key FROM sessions
           WHERE tenant_id = $1 AND session_key <> $2 AND parent_id IN
             (SELECT id FROM sessions WHERE tenant_id = $1 AND session_key = $2)
           GROUP BY parent_id) heir
         WHERE p.tenant_id = $1 AND p.session_key = $2 AND p.id = heir.parent_id
         RETURNING p.id",
    )
    .bind(tenant)
    .bind(key)
    .fetch_all(transaction)
    .await?;
    Ok(given)
}

/// Removes the lines that no fork shares.
async fn cut(transaction: &mut PgConnection, tenant: &str, key: &str, id: &str) -> TxResult<()> {
    let head: i64 = sqlx::query_scalar(
        "UPDATE sessions SET head_seq = (
           SELECT max(c.fork_seq) FROM sessions c
           WHERE c.tenant_id = $1 AND c.parent_id = $2 AND c.session_key <> $3)
         WHERE tenant_id = $1 AND id = $2 RETURNING head_seq",
    )
    .bind(tenant)
    .bind(id)
    .bind(key)
    .fetch_one(&mut *transaction)
    .await?;
    sqlx::query("DELETE FROM entries WHERE tenant_id = $1 AND session_id = $2 AND seq > $3")
        .bind(tenant)
        .bind(id)
        .bind(head)
        .execute(transaction)
        .await?;
    Ok(())
}
