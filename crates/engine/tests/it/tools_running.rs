//! Permitted calls through the whole engine: what starts, what a saved yes is good for, and what ends a call.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_engine::{Answering, Engine, Invoke};
use tidegate_protocol::RunId;
use tidegate_runtime::{Clock as _, SystemClock, new_id, spawn};
use tidegate_storage::DecidedApproval;
use tokio_util::sync::CancellationToken;

use crate::tools::{Recorder, asks, call, canary, canary_of, done, on_record, owner, workshop};
use crate::vendor::{Bench, on_both_backends};
use crate::{close, until};

on_both_backends! {
    a_yes_for_good_saves_what_was_shown_and_asks_no_more,
    a_prefix_leaves_the_further_words_open,
    a_rule_that_was_taken_back_asks_again,
    an_unanswered_command_runs_only_if_the_allowlist_covers_it,
    a_call_that_goes_round_in_circles_is_not_run_again,
    a_refusal_that_comes_again_and_again_is_noticed_too,
    whoever_stops_waiting_ends_what_runs,
}

fn exec(command: &str) -> Invoke {
    call("exec", json!({"command": command}))
}

fn commands(exec: &Value) -> Value {
    json!({"tools": {"profile": "full", "exec": exec}})
}

async fn with_commands(bench: &Bench<'_>, runner: &Arc<Recorder>) -> Engine {
    workshop(bench, commands(&json!({"security": "allowlist", "ask": "on-miss"})), runner).await
}

fn started(runner: &Recorder) -> Vec<String> {
    let plans = runner.started.lock().unwrap();
    plans.iter().map(|plan| plan.iter().map(|argv| argv.join(" ")).collect::<Vec<_>>().join(" | ")).collect()
}

async fn always(engine: &Engine, command: &str, prefix: Option<u32>) -> DecidedApproval {
    let waiting = asks(engine, exec(command)).await;
    let id = waiting.approval.id;
    let answering = Answering::AllowAlways { prefix };
    let decided = engine.answer(&owner(), id, answering).await.unwrap();
    if matches!(decided, DecidedApproval::Won(_)) {
        assert!(waiting.end().await.unwrap().ok);
    } else {
        waiting.cancel.cancel();
        waiting.refusal().await;
    }
    decided
}

async fn a_yes_for_good_saves_what_was_shown_and_asks_no_more(bench: &Bench<'_>) {
    let runner = Arc::<Recorder>::default();
    let engine = with_commands(bench, &runner).await;
    let waiting = asks(&engine, exec("ls -l 'a b'")).await;
    let shown = waiting.approval.rule.clone().unwrap();
    assert_eq!((shown.as_str(), waiting.approval.commands), ("/usr/bin/ls -l 'a b'", vec![shown.clone()]));
    assert_eq!(started(&runner), Vec::<String>::new());
    waiting.cancel.cancel();
    assert!(matches!(always(&engine, "ls -l 'a b'", None).await, DecidedApproval::Won(_)));
    let rules = engine.allow_rules(None).await.unwrap();
    let [rule] = rules.as_slice() else { panic!("{rules:?}") };
    assert_eq!(tidegate_policy::approval::rule_in_words(&rule.matches), shown);
    assert!(done(&engine, exec("ls  -l  \"a b\"")).await.ok, "the same words, written another way");
    assert_eq!(started(&runner), ["ls -l a b", "ls -l a b"]);
    assert!(engine.allow_rules(None).await.unwrap()[0].last_used_at.is_some());
    for other in ["ls -l", "ls -l a b", "ls -l 'a b' c", "ls -l 'a b' && ls", "ls -l 'a b' > x"] {
        let waiting = asks(&engine, exec(other)).await;
        waiting.cancel.cancel();
        assert_eq!(waiting.refusal().await, "aborted", "{other}");
    }
    assert_eq!(started(&runner).len(), 2);
    close(engine).await;
}

async fn a_prefix_leaves_the_further_words_open(bench: &Bench<'_>) {
    let runner = Arc::<Recorder>::default();
    let engine = with_commands(bench, &runner).await;
    for (command, prefix) in [("ls -l a", 0), ("ls -l a", 3), ("git push origin", 1), ("ls a | wc -l", 1)] {
        let decided = always(&engine, command, Some(prefix)).await;
        assert_eq!(decided, DecidedApproval::CannotBeSaved, "{command} {prefix}");
    }
    assert!(matches!(always(&engine, "ls -l a", Some(1)).await, DecidedApproval::Won(_)));
    assert!(done(&engine, exec("ls -l b c")).await.ok);
    assert_eq!(started(&runner), ["ls -l a", "ls -l b c"]);
    let waiting = asks(&engine, exec("ls a")).await;
    waiting.cancel.cancel();
    assert_eq!(waiting.refusal().await, "aborted");
    close(engine).await;
}

async fn a_rule_that_was_taken_back_asks_again(bench: &Bench<'_>) {
    let runner = Arc::<Recorder>::default();
    let engine = with_commands(bench, &runner).await;
    always(&engine, "ls -l", None).await;
    let rule = engine.allow_rules(None).await.unwrap()[0].id;
    assert!(engine.remove_allow_rule(&owner(), rule).await.unwrap());
    let waiting = asks(&engine, exec("ls -l")).await;
    waiting.cancel.cancel();
    waiting.refusal().await;
    assert_eq!(started(&runner), ["ls -l"]);
    close(engine).await;
}

async fn an_unanswered_command_runs_only_if_the_allowlist_covers_it(bench: &Bench<'_>) {
    let runner = Arc::<Recorder>::default();
    let engine = with_commands(bench, &runner).await;
    always(&engine, "ls -l", None).await;
    close(engine).await;
    let careful = json!({"security": "allowlist", "ask": "always", "askFallback": "allowlist"});
    let engine = workshop(bench, commands(&careful), &runner).await;
    let covered = asks(&engine, exec("ls -l")).await;
    let other = asks(&engine, exec("ls -a")).await;
    bench.clock.set(SystemClock.now_ms() + 300_000);
    assert!(covered.end().await.unwrap().ok);
    assert!(other.refusal().await.contains("nobody answered in time"));
    assert_eq!(started(&runner), ["ls -l", "ls -l"]);
    close(engine).await;
}

fn in_run(run: RunId, invoke: Invoke) -> Invoke {
    Invoke { run: Some(run), ..invoke }
}

async fn a_call_that_goes_round_in_circles_is_not_run_again(bench: &Bench<'_>) {
    let loops = json!({"warnAt": 2, "stopAt": 3});
    let config = json!({"tools": {"profile": "full", "loopDetection": loops}});
    let engine = workshop(bench, config, &Arc::default()).await;
    assert!(done(&engine, canary()).await.ok);
    let run: RunId = new_id(&SystemClock).unwrap();
    let read = |run| in_run(run, call("read", json!({"path": "canary.txt"})));
    let mut told = Vec::new();
    for _ in 0..4 {
        let result = done(&engine, read(run)).await;
        let words = ["Note:", "Stopped:"].into_iter().find(|word| result.text().contains(word));
        told.push((result.ok, words.unwrap_or("")));
    }
    assert_eq!(told, [(true, ""), (true, "Note:"), (true, "Stopped:"), (false, "Stopped:")]);
    assert_eq!(on_record(&engine, "tool.run").await.len(), 4, "the last one did not run");
    assert!(done(&engine, read(new_id(&SystemClock).unwrap())).await.ok, "another run is another matter");
    close(engine).await;
}

async fn a_refusal_that_comes_again_and_again_is_noticed_too(bench: &Bench<'_>) {
    let loops = json!({"warnAt": 2, "stopAt": 3});
    let config = json!({"tools": {"profile": "full", "deny": ["write"], "loopDetection": loops}});
    let engine = workshop(bench, config, &Arc::default()).await;
    let run: RunId = new_id(&SystemClock).unwrap();
    let missing = call("read", json!({"path": "nothing.txt"}));
    for invoke in [canary(), missing] {
        for _ in 0..3 {
            done(&engine, in_run(run, invoke.clone())).await;
        }
        let last = done(&engine, in_run(run, invoke)).await;
        assert!(last.error.unwrap().message.starts_with("Stopped:"));
    }
    assert_eq!(canary_of(&engine), None);
    assert_eq!(on_record(&engine, "tool.denied").await.len(), 3);
    close(engine).await;
}

async fn whoever_stops_waiting_ends_what_runs(bench: &Bench<'_>) {
    let runner = Arc::new(Recorder { endless: true, ..Recorder::default() });
    let full = commands(&json!({"security": "full", "ask": "off"}));
    let engine = workshop(bench, full, &runner).await;
    let cancel = CancellationToken::new();
    let (running, ends) = (engine.clone(), cancel.clone());
    let call = spawn("test call", async move { running.invoke(exec("ls"), &ends, Arc::new(|_| {})).await });
    until("it started", async || !started(&runner).is_empty()).await;
    assert!(!runner.killed.is_cancelled());
    cancel.cancel();
    let result = call.join().await.unwrap().unwrap();
    assert_eq!(result.error.unwrap().message, "aborted");
    until("it was killed", async || runner.killed.is_cancelled()).await;
    assert_eq!(on_record(&engine, "tool.failed").await.len(), 1);
    close(engine).await;
}
