//! SIGKILL on both sides of every commit: nothing of the verb, or all of it, and the next process goes on.

use std::path::Path;

use tidegate_protocol::AuditId;
use tidegate_storage::{Claim, Lease, Owner, RunFilter, SCHEMA};
use tidegate_testkit::crash::{Side, Victim};
use tidegate_testkit::requests::{Requests, parse};
use tidegate_testkit::script::{Ack, Script, Verb};
use tidegate_testkit::snapshot::{ALL, assert_same};
use tidegate_testkit::stores::{Backend, ScratchStore, with_place};

use crate::scene::{HOUR, log, next_send};

on_both_backends! {
    an_accept_is_all_or_nothing,
    a_claim_is_all_or_nothing,
    a_step_is_all_or_nothing,
    a_compaction_is_all_or_nothing,
    a_joining_is_all_or_nothing,
    a_note_of_a_flush_is_all_or_nothing,
    a_fork_is_all_or_nothing,
    a_title_is_all_or_nothing,
    a_choice_of_settings_is_all_or_nothing,
    a_finish_is_all_or_nothing,
    an_abort_is_all_or_nothing,
    a_deletion_is_all_or_nothing,
    a_claim_of_a_send_is_all_or_nothing,
    a_settled_send_is_all_or_nothing,
    an_enlistment_is_all_or_nothing,
    a_heartbeat_is_all_or_nothing,
    a_recovery_is_all_or_nothing,
    a_mirror_position_is_all_or_nothing,
    an_ingest_is_all_or_nothing,
    a_release_is_all_or_nothing,
    a_retried_send_is_all_or_nothing,
    a_dropped_send_is_all_or_nothing,
    a_note_of_telling_is_all_or_nothing,
    a_sweep_is_all_or_nothing,
    a_seal_is_all_or_nothing,
    a_metering_is_all_or_nothing,
    a_noted_standing_is_all_or_nothing,
    a_clearing_of_standings_is_all_or_nothing,
    a_question_is_all_or_nothing,
    an_answer_to_a_question_is_all_or_nothing,
    a_use_of_a_yes_is_all_or_nothing,
    a_cancelled_question_is_all_or_nothing,
    an_expiry_is_all_or_nothing,
    a_saved_rule_is_all_or_nothing,
    a_removed_rule_is_all_or_nothing,
    a_touched_rule_is_all_or_nothing,
    a_record_of_a_tool_is_all_or_nothing,
    a_record_of_an_event_is_all_or_nothing,
    a_kept_answer_is_all_or_nothing,
    every_fault_point_of_the_store_is_killed_by_a_test,
    a_killed_migration_goes_on,
}

const SEEDS: [u64; 3] = [1, 2, 3];

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_tidegate-testkit"))
}

async fn an_accept_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Accept).await;
}

async fn a_claim_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Claim).await;
}

async fn a_step_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Step).await;
}

async fn a_compaction_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Compact).await;
}

async fn a_joining_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Absorb).await;
}

async fn a_note_of_a_flush_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::NoteFlush).await;
}

async fn a_fork_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Fork).await;
}

async fn a_title_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::SetTitle).await;
}

async fn a_choice_of_settings_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::SetSessionSettings).await;
}

async fn a_finish_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Finish).await;
}

async fn an_abort_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Abort).await;
}

async fn a_deletion_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::DeleteSession).await;
}

async fn a_claim_of_a_send_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::ClaimSend).await;
}

async fn a_settled_send_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::SettleSend).await;
}

async fn an_enlistment_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Enlist).await;
}

async fn a_heartbeat_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Heartbeat).await;
}

async fn a_recovery_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Recover).await;
}

async fn a_mirror_position_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::NoteMirrored).await;
}

async fn an_ingest_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Ingest).await;
}

async fn a_release_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Release).await;
}

async fn a_retried_send_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::RetrySend).await;
}

async fn a_dropped_send_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::DropSend).await;
}

async fn a_note_of_telling_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::NoteTold).await;
}

async fn a_sweep_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Sweep).await;
}

async fn a_seal_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Seal).await;
}

async fn a_metering_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::Meter).await;
}

async fn a_kept_answer_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::KeepAnswer).await;
}

async fn a_noted_standing_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::NoteStanding).await;
}

async fn a_clearing_of_standings_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::ClearStandings).await;
}

async fn a_question_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::RequestApproval).await;
}

async fn an_answer_to_a_question_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::DecideApproval).await;
}

async fn a_use_of_a_yes_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::UseApproval).await;
}

async fn a_cancelled_question_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::CancelApprovals).await;
}

async fn an_expiry_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::ExpireApprovals).await;
}

async fn a_saved_rule_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::SaveAllowRule).await;
}

async fn a_removed_rule_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::RemoveAllowRule).await;
}

async fn a_touched_rule_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::TouchAllowRule).await;
}

async fn a_record_of_a_tool_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::AuditTool).await;
}

async fn a_record_of_an_event_is_all_or_nothing(store: &mut ScratchStore) {
    all_or_nothing(store, Verb::AuditEvent).await;
}

/// Plays the script here in one tenant, and lets a process die at it in another: what the dead one left must be what
/// is here before the verb, or after it.
async fn all_or_nothing(store: &mut ScratchStore, verb: Verb) {
    for seed in SEEDS {
        let whole = Script::new(&format!("whole-{seed}"), verb, seed);
        let mut acks = Vec::new();
        let world = whole.prepare(&**store, &mut |ack| acks.push(ack)).await.unwrap();
        let before = view(store, &whole).await;
        let told = acks.clone();
        whole.perform(&**store, &world, &mut |ack| acks.push(ack)).await.unwrap();
        let after = view(store, &whole).await;
        assert!(
            before != after || store.backend() == Backend::Postgres,
            "the verb writes something to be lost"
        );
        let hit = told.iter().filter(|ack| ack.verb == verb).count() + 1;

        for (name, side, expected) in [("before", Side::Before, &before), ("after", Side::After, &after)] {
            let tenant = format!("{name}-{seed}");
            let script = Script::new(&tenant, verb, seed);
            if store.backend() == Backend::Sqlite {
                // One process writes a file; a server has many clients, who live on.
                store.close().await;
            }
            let victim =
                Victim { program: program(), location: store.location(), tenant: &tenant, verb, seed };
            let printed = victim.kill_at(side, hit);
            if store.backend() == Backend::Sqlite {
                store.open().await;
            }
            assert_same(&names_aside(&words(&told), &whole), &names_aside(&words(&printed), &script));
            assert_same(expected, &view(store, &script).await);
            go_on(store, &script).await;
        }
    }
}

fn words(acks: &[Ack]) -> String {
    let lines: Vec<_> = acks.iter().map(|ack| format!("{}: {}", ack.verb.as_str(), ack.answer)).collect();
    lines.join("\n")
}

/// The same script leaves the same rows, apart from these two names.
fn names_aside(text: &str, script: &Script) -> String {
    let tenant = script.requests().tenant().as_str();
    text.replace(tenant, "<tenant>").replace(&script.instance.to_string(), "<instance>")
}

/// Everything of the script's tenant and instance, in a form that can be compared with another tenant's.
async fn view(store: &ScratchStore, script: &Script) -> String {
    let mut snapshot = store.snapshot(script.requests().tenant()).await;
    for row in &mut snapshot.library.audit {
        row.id = parse::<AuditId>("00000000-0000-7000-8000-000000000000");
    }
    // Rows of one commit have no order among themselves.
    snapshot.library.audit.sort_by_key(|row| (row.created_at, row.resource_id.clone()));
    let mut instance = store.rows("instances", &format!("id = '{}'", script.instance)).await;
    if store.backend() == Backend::Postgres {
        // The database's own clock.
        for row in &mut instance {
            row.remove("heartbeat_at");
        }
    }
    names_aside(&format!("{instance:#?}\n{snapshot:#?}"), script)
}

/// The next process: it recovers, brings everything that waits to its end, and finds a store without a scratch.
async fn go_on(store: &ScratchStore, script: &Script) {
    // Ids and times of its own.
    let make = Requests::new(script.requests().tenant().as_str(), script.seed + 1_000);
    make.set_now(make.now() + HOUR);
    let owner = store.enlist(script.instance, make.now()).await.unwrap();
    store.recover(&owner, make.now()).await.unwrap();
    let runs = store.runs(make.tenant(), RunFilter { limit: ALL, ..RunFilter::default() }).await.unwrap();
    for run in runs {
        drain(store, &make, &run.key, owner).await;
    }
    while let Some(sending) = next_send(store, make.tenant(), &owner, make.now()).await.unwrap() {
        let outcome = tidegate_protocol::SendOutcome::Sent { id: "remote".to_owned() };
        store.settle_send(&sending, outcome, make.now()).await.unwrap();
    }
    let key = make.key("work");
    crate::scene::converse(store, &make, &key, owner).await;
    let runs = store.runs(make.tenant(), RunFilter { limit: ALL, ..RunFilter::default() }).await.unwrap();
    for run in &runs {
        assert!(run.state.is_terminal(), "{run:?}");
    }
    let status = store.status(make.tenant()).await.unwrap();
    let open = |state: &str| matches!(state, "pending" | "sending");
    assert!(!status.outbox.iter().any(|(state, _)| open(state)), "{status:?}");
}

async fn drain(store: &ScratchStore, make: &Requests, key: &tidegate_protocol::SessionKey, owner: Owner) {
    while let Claim::Granted(lease) = store.claim(key, &owner, HOUR, make.now()).await.unwrap() {
        store.finish(&lease, make.completed()).await.unwrap();
        assert_chained(store, &lease).await;
    }
}

/// Positions without a gap, each line the child of the one before.
async fn assert_chained(store: &ScratchStore, lease: &Lease) {
    let lines = log(store, lease).await;
    let mut parent = None;
    for (seq, line) in (1..).zip(&lines) {
        assert_eq!((line.seq, line.parent_id), (seq, parent));
        parent = Some(line.id);
    }
}

/// A verb that nobody kills would be a promise that nobody checks.
async fn every_fault_point_of_the_store_is_killed_by_a_test(store: &mut ScratchStore) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    store.close().await;
    for verb in Verb::ALL {
        let tenant = format!("trace-{}", verb.as_str());
        Victim { program: program(), location: store.location(), tenant: &tenant, verb: *verb, seed: 1 }
            .trace(&trace);
    }
    store.open().await;
    let mut passed: Vec<_> = std::fs::read_to_string(&trace).unwrap().lines().map(str::to_owned).collect();
    passed.retain(|point| point.ends_with("_commit"));
    passed.sort();
    passed.dedup();
    let verbs = Verb::ALL.iter().filter(|verb| **verb != Verb::Migrate);
    let mut expected: Vec<_> =
        verbs.flat_map(|verb| [Side::Before.point(*verb), Side::After.point(*verb)]).collect();
    expected.sort();
    assert_eq!(passed, expected);
}

/// Killed at any step, the next start goes on where the last one stopped.
async fn a_killed_migration_goes_on(store: &mut ScratchStore) {
    let steps = usize::try_from(SCHEMA).unwrap();
    for side in [Side::Before, Side::After] {
        for hit in 1..=steps {
            // A store that was never opened.
            with_place(store.backend(), async |store| killed_migration(store, side, hit).await).await;
        }
    }
}

async fn killed_migration(store: &mut ScratchStore, side: Side, hit: usize) {
    let script = Script::new("local", Verb::Accept, 1);
    let victim = Victim {
        program: program(),
        location: store.location(),
        tenant: "local",
        verb: Verb::Migrate,
        seed: 1,
    };
    assert_eq!(victim.kill_at(side, hit), []);
    store.open().await;
    assert_eq!(store.status(script.requests().tenant()).await.unwrap().schema, SCHEMA);
    let world = script.prepare(&**store, &mut |_| ()).await.unwrap();
    script.perform(&**store, &world, &mut |_| ()).await.unwrap();
    go_on(store, &script).await;
}
