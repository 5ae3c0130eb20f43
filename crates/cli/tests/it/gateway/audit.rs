//! The record of what was done: whole when nobody touched it, and broken in the right place when somebody did.

use super::homes::{account, with_channels};
use super::live::Live;
use crate::home::{Backend, Home};

/// A home in which something was done, sealed to the last row.
fn sealed() -> Home {
    let home = with_channels(Backend::Sqlite).expect("SQLite is always there");
    let live = Live::start(&home);
    for at in 0..3 {
        account(&home, "default").say("p", &format!("line {at}"));
        account(&home, "default").wait_for(at + 1);
        home.ask(&format!("ask {at}"));
    }
    live.end();
    // Each further life seals at least once more, so that there are seals with a successor.
    for text in ["later", "at last"] {
        let again = Live::start(&home);
        home.ask(text);
        again.end();
    }
    home
}

fn verdict(home: &Home) -> serde_json::Value {
    home.call(&["audit", "verify", "--json"]).run().json()
}

fn tamper(home: &Home, sql: &str) {
    let connection = rusqlite::Connection::open(home.database()).expect("the database opens");
    let triggers: Vec<String> = {
        let mut list =
            connection.prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'").expect("a list");
        let names = list.query_map([], |row| row.get(0)).expect("names");
        names.collect::<Result<_, _>>().expect("names")
    };
    // Whoever can write the file can take its guards away too.
    for trigger in triggers {
        connection.execute_batch(&format!("DROP TRIGGER \"{trigger}\"")).expect("a trigger can go");
    }
    connection.execute_batch("PRAGMA foreign_keys = OFF").expect("a pragma");
    let changed = connection.execute(sql, []).unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert!(changed > 0, "{sql} changed nothing");
}

#[test]
fn an_untouched_record_is_whole_and_says_how_much_is_not_sealed_yet() {
    let home = sealed();
    let whole = verdict(&home);
    assert_eq!((&whole["whole"], &whole["unsealed"]), (&true.into(), &0.into()), "{whole}");
    assert_eq!(whole["rows"], 8, "one row a run: {whole}");
    let told = home.call(&["audit", "verify"]).ok().stdout;
    assert!(told.starts_with("whole: 8 rows under ") && told.contains("0 not sealed yet"), "{told}");
    let chinese = home.call(&["audit", "verify"]).env("TIDEGATE_LANG", "zh-CN").ok().stdout;
    assert!(chinese.starts_with("完整"), "{chinese}");
    let killed = home.call(&["ask", "x"]).env("TIDEGATE_FAULT", "storage.finish.after_commit=kill").run();
    assert_eq!(killed.signal, Some(9));
    let whole = verdict(&home);
    assert_eq!((&whole["whole"], &whole["unsealed"]), (&true.into(), &1.into()), "{whole}");
}

#[test]
fn every_way_to_tamper_is_found_and_its_seal_is_named() {
    // A seal of 0 is the last one.
    let cases = [
        ("UPDATE audit_logs SET actor = 'somebody else' WHERE seal = 2", 2),
        ("UPDATE audit_logs SET action = 'nothing' WHERE seal = 1", 1),
        ("UPDATE audit_logs SET created_at = created_at + 1 WHERE seal = 2", 2),
        ("UPDATE audit_logs SET resource_id = 'other' WHERE seal = 2", 2),
        ("DELETE FROM audit_logs WHERE id = (SELECT id FROM audit_logs WHERE seal = 2 LIMIT 1)", 2),
        ("DELETE FROM audit_seals WHERE number = 2", 2),
        ("UPDATE audit_seals SET chain = replace(chain, substr(chain, 1, 1), 'x') WHERE number = 2", 2),
        ("UPDATE audit_logs SET seal = 3 - seal WHERE seal IN (1, 2)", 1),
        ("UPDATE audit_logs SET metadata_json = '{}' WHERE seal = 2", 2),
        ("UPDATE audit_logs SET seal = NULL WHERE seal = 2", 2),
        ("DELETE FROM audit_seals WHERE number = 1", 1),
        ("DELETE FROM audit_seals WHERE number = (SELECT max(number) FROM audit_seals)", 0),
        ("DELETE FROM audit_seals", 1),
    ];
    for (sql, seal) in cases {
        let home = sealed();
        let last = verdict(&home)["seals"].as_u64().expect("a number");
        assert!(last >= 3, "there are seals to break");
        let seal = if seal == 0 { last } else { seal };
        tamper(&home, sql);
        let failed = home.call(&["audit", "verify"]).fails("AUDIT_BROKEN");
        assert!(failed.stderr.contains(&format!("seal {seal}")), "{sql}: {failed:?}");
        let done = home.call(&["audit", "verify", "--json"]).run();
        assert_eq!(done.code, Some(1), "{sql}: {done:?}");
        let told = done.json();
        assert_eq!(told["whole"], false, "{told}");
        assert!(told["breaks"].as_array().is_some_and(|breaks| !breaks.is_empty()), "{told}");
        let chinese = home.call(&["audit", "verify"]).env("TIDEGATE_LANG", "zh-CN").fails("AUDIT_BROKEN");
        assert!(chinese.message.contains("封印"), "{chinese:?}");
        // The gateway goes on, and does not mend what somebody broke.
        let live = Live::start(&home);
        home.ask("goes on");
        live.end();
        assert_eq!(verdict(&home)["whole"], false, "{sql}");
    }
}
