//! When a conversation begins anew by itself, by a moved clock.

use serde_json::json;
use tidegate_engine::{Answer, Engine};
use tidegate_protocol::SessionKey;

use crate::vendor::{Bench, on_both_backends, question};
use crate::{close, put, scope};

on_both_backends! {
    a_day_ends_at_its_hour_in_the_zone_of_the_sessions,
    silence_ends_a_conversation_and_less_of_it_does_not,
    whichever_comes_first_ends_it,
    a_conversation_with_a_name_lasts_unless_somebody_says_otherwise,
}

const MINUTE: i64 = 60_000;
/// 2026-11-17T04:00 in Shanghai.
const FOUR: i64 = 1_794_859_200_000;

async fn ask(engine: &Engine, session: &str) -> Answer {
    put(engine, question(engine, session), &mut |_| {}).await.unwrap()
}

async fn a_day_ends_at_its_hour_in_the_zone_of_the_sessions(bench: &Bench<'_>) {
    let engine =
        bench.engine(json!({"session": {"reset": {"atHour": 4}, "timezone": "Asia/Shanghai"}})).await;
    bench.clock.set(FOUR - 60 * MINUTE);
    let before = ask(&engine, "main").await;
    bench.clock.set(FOUR - MINUTE);
    assert_eq!(ask(&engine, "main").await.session_name, before.session_name);
    bench.clock.set(FOUR + MINUTE);
    let after = ask(&engine, "main").await;
    assert_ne!(after.session_name, before.session_name);
    // The key is the same, the old log is there, and the model saw nothing of it.
    let key = SessionKey::named(scope(), "main");
    let current = engine.library().session(&key).await.unwrap().unwrap();
    assert_eq!(current.alias.as_deref(), Some(after.session_name.as_str()));
    let old = engine.library().session_by_name(&scope().tenant, &before.session_name).await.unwrap().unwrap();
    assert_eq!((old.key, old.head_seq, old.current), (key, 4, false));
    assert_eq!(bench.vendor.last_request().body["messages"].as_array().unwrap().len(), 1);
    close(engine).await;
}

async fn silence_ends_a_conversation_and_less_of_it_does_not(bench: &Bench<'_>) {
    let engine = bench.engine(json!({"session": {"reset": {"mode": "idle", "idleMinutes": 240}}})).await;
    bench.clock.set(FOUR);
    let first = ask(&engine, "main").await;
    bench.clock.set(FOUR + 239 * MINUTE);
    assert_eq!(ask(&engine, "main").await.session_name, first.session_name);
    bench.clock.set(FOUR + (239 + 241) * MINUTE);
    assert_ne!(ask(&engine, "main").await.session_name, first.session_name);
    close(engine).await;
}

async fn whichever_comes_first_ends_it(bench: &Bench<'_>) {
    let reset = json!({"atHour": 4, "idleMinutes": 60});
    let engine = bench.engine(json!({"session": {"reset": reset, "timezone": "Asia/Shanghai"}})).await;
    bench.clock.set(FOUR - 30 * MINUTE);
    let night = ask(&engine, "main").await;
    bench.clock.set(FOUR + MINUTE);
    let morning = ask(&engine, "main").await;
    assert_ne!(morning.session_name, night.session_name, "the hour, after 31 minutes of silence");
    bench.clock.set(FOUR + 63 * MINUTE);
    assert_ne!(
        ask(&engine, "main").await.session_name,
        morning.session_name,
        "silence, long before the hour"
    );
    close(engine).await;
}

async fn a_conversation_with_a_name_lasts_unless_somebody_says_otherwise(bench: &Bench<'_>) {
    let engine = bench.engine(json!({})).await;
    bench.clock.set(FOUR);
    let (named, main) = (ask(&engine, "work").await, ask(&engine, "main").await);
    bench.clock.set(FOUR + 7 * 24 * 60 * MINUTE);
    assert_eq!(ask(&engine, "work").await.session_name, named.session_name);
    assert_eq!(ask(&engine, "main").await.session_name, main.session_name);
    close(engine).await;
}
