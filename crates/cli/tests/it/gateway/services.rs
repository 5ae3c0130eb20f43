//! Services from outside: programs that do what they like beside a gateway that does not mind.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::live::{Live, eventually};
use crate::home::Home;

/// A home with these services, on the bare machine. `MARK` in them is a word that no other program has.
fn with_services(services: &str) -> (Home, String) {
    let home = Home::new();
    let mark = format!("mark-{}", home.root().display().to_string().replace('/', "-"));
    let config = "agents: { defaults: { sandbox: { profile: 'none' } } }";
    home.write_config(&format!("{{ {config}, services: {{ {} }} }}\n", services.replace("MARK", &mark)));
    (home, mark)
}

fn status(home: &Home, name: &str) -> Value {
    let told = home.call(&["services", "status", "--json", name]).json();
    told["services"][0].clone()
}

fn until(home: &Home, name: &str, state: &str) -> Value {
    eventually(&format!("{name} is {state}"), || {
        Some(status(home, name)).filter(|status| status["state"] == state)
    })
}

fn log(home: &Home, name: &str) -> String {
    fs::read_to_string(home.root().join(format!("logs/services/{name}.log"))).unwrap_or_default()
}

/// What the audit trail has about a service, the oldest first.
fn on_record(home: &Home, name: &str) -> Vec<String> {
    let told = home.call(&["audit", "list", "--json", "--limit", "1000"]).json();
    let rows = told["rows"].as_array().or(told["audit"].as_array()).cloned().unwrap_or_default();
    let about = rows.iter().rev().filter(|row| row["resourceType"] == "service" && row["resourceId"] == name);
    about.map(|row| row["action"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The processes that have this word.
fn marked(mark: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir("/proc").expect("there is a /proc").flatten().map(|entry| entry.path());
    let has = |path: &PathBuf| {
        let words = fs::read(path.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(mark)
    };
    entries.filter(has).collect()
}

fn all_gone(mark: &str) {
    eventually("the services are gone", || marked(mark).is_empty().then_some(()));
}

#[test]
fn services_run_with_the_gateway_and_none_of_them_hurts_another() {
    let (home, mark) = with_services(
        r#"
        good: { command: "sh", args: ["-c", "trap 'echo cleaned up; exit 0' TERM; echo hello $GREETING; while :; do sleep 0.05; done # MARK"], env: { GREETING: "there" } },
        dies: { command: "sh", args: ["-c", "echo dying; exit 3 # MARK"], restart: { backoffMs: 20, maxBackoffMs: 40, attempts: 3 } },
        once: { command: "true", restart: { policy: "on-failure" } },
        missing: { command: "/no/such/program", restart: { backoffMs: 20, attempts: 1 } },
        sick: { command: "sh", args: ["-c", "sleep 1000 # MARK"], health: { tcp: "127.0.0.1:1", startSeconds: 1, intervalSeconds: 1 }, restart: { backoffMs: 20, attempts: 1 } },
        well: { command: "sh", args: ["-c", "touch ready; sleep 1000 # MARK"], health: { command: ["test", "-e", "ready"], intervalSeconds: 1 } },
        deaf: { command: "sh", args: ["-c", "trap '' TERM; while :; do sleep 0.05; done # MARK"], stopSeconds: 1 },
        loud: { command: "sh", args: ["-c", "yes MARK"] },
        off: { command: "sh", args: ["-c", "echo never # MARK"], enabled: false },
        "#,
    );
    home.ask("hi");
    assert!(!home.root().join("logs/services").exists(), "a command that goes soon starts no service");

    let live = Live::start(&home);
    until(&home, "good", "running");
    until(&home, "well", "running");
    eventually("it says hello", || log(&home, "good").contains("hello there").then_some(()));
    let dead = until(&home, "dies", "gaveUp");
    assert_eq!(dead["restarts"], 3, "{dead}");
    assert_eq!(dead["lastError"], "it ended with exit code 3; given up after 3 restarts");
    assert_eq!(log(&home, "dies").matches("dying").count(), 4);
    until(&home, "once", "ended");
    let missing = until(&home, "missing", "gaveUp");
    assert!(missing["lastError"].as_str().is_some_and(|why| why.contains("no such program")), "{missing}");
    let sick = until(&home, "sick", "gaveUp");
    assert!(sick["lastError"].as_str().is_some_and(|why| why.contains("not healthy within 1 s")), "{sick}");
    home.call(&["services", "status", "off"]).fails("NOT_FOUND");
    assert_eq!(
        on_record(&home, "dies"),
        [["service.started", "service.ended"]; 4]
            .concat()
            .into_iter()
            .chain(["service.gave_up"])
            .collect::<Vec<_>>()
    );
    assert_eq!(on_record(&home, "missing"), ["service.ended", "service.ended", "service.gave_up"]);

    home.call(&["services", "restart", "dies"]).ok();
    eventually("it is tried again", || (log(&home, "dies").matches("dying").count() > 4).then_some(()));
    home.call(&["services", "restart", "nobody"]).fails("NOT_FOUND");
    let shown = home.call(&["services", "logs", "dies", "--limit", "2"]).ok();
    assert_eq!(shown.stdout.lines().count(), 2, "{shown:?}");
    let gateway = home.call(&["gateway", "status", "--json"]).json();
    assert_eq!(gateway["services"].as_array().map(Vec::len), Some(8), "{gateway}");

    eventually("the flood goes round", || {
        home.root().join("logs/services/loud.log.2").exists().then_some(())
    });
    let sizes = ["loud.log", "loud.log.1", "loud.log.2"]
        .map(|name| fs::metadata(home.root().join("logs/services").join(name)).map_or(0, |file| file.len()));
    assert!(sizes.iter().all(|size| *size <= 4 << 20), "{sizes:?}");
    assert_eq!(until(&home, "good", "running")["restarts"], 0);
    home.ask("still there?");

    live.end();
    assert!(log(&home, "good").contains("cleaned up"), "{}", log(&home, "good"));
    assert!(log(&home, "deaf").contains("stopped with the gateway"));
    assert_eq!(marked(&mark), Vec::<PathBuf>::new());
    let stopped = home.call(&["services", "status", "--json"]).json();
    assert_eq!(stopped["running"], false);
}

#[test]
fn a_gateway_that_is_killed_leaves_no_service_behind() {
    let (home, mark) = with_services(
        r#"
        plain: { command: "sh", args: ["-c", "sleep 1000 & sleep 1000 # MARK"] },
        deaf: { command: "sh", args: ["-c", "trap '' TERM HUP; while :; do sleep 0.05; done # MARK"] },
        "#,
    );
    let live = Live::start(&home);
    until(&home, "plain", "running");
    until(&home, "deaf", "running");
    assert!(marked(&mark).len() >= 2);
    live.kill();
    all_gone(&mark);
}

#[test]
fn what_is_wrong_with_a_service_is_said_with_its_place() {
    for (service, expected) in [
        ("db: { args: ['x'] }", "services.db.command"),
        ("db: { command: 'x', health: {} }", "services.db.health: say how to look"),
        ("db: { command: 'x', health: { tcp: 'a:1', http: 'http://a/' } }", "not several"),
        ("db: { command: 'x', restart: { policy: 'sometimes' } }", "services.db.restart.policy"),
        ("'a/b': { command: 'x' }", "a service's name must be"),
    ] {
        let (home, _) = with_services(service);
        let failed = home.call(&["services", "list"]).fails("CONFIG_INVALID");
        assert!(failed.stderr.contains(expected), "{service}: {failed:?}");
    }
}
