//! Claiming what waits: first in, first out, one at a time.

use tidegate_protocol::RunState;
use tidegate_storage::{Accept, Claim, Fence, Lease, SessionChoice};
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::ScratchStore;

use crate::scene::{HOUR, claim, converse, enlist, queue, run, running_row, start, state};

on_both_backends! {
    nothing_is_claimed_where_nothing_waits,
    the_oldest_run_is_claimed_first,
    a_session_under_way_is_busy_for_everybody,
    the_fence_goes_up_with_every_claim_and_abort,
    a_claim_resolves_the_log_when_it_happens,
}

async fn nothing_is_claimed_where_nothing_waits(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    assert_eq!(store.claim(&key, &owner, HOUR, make.now()).await.unwrap(), Claim::Nothing);
    converse(store, &make, &key, owner).await;
    let before = store.snapshot(make.tenant()).await;
    assert_eq!(store.claim(&key, &owner, HOUR, make.now()).await.unwrap(), Claim::Nothing);
    assert_eq!(store.snapshot(make.tenant()).await.library, before.library);
}

async fn the_oldest_run_is_claimed_first(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let accepts = [make.accept(&key), make.accept_from_channel(&key), make.accept(&key)];
    for accept in &accepts {
        queue(store, accept.clone()).await;
    }
    let session = accepts[0].new_session.id;
    for (fence, accept) in (1..).zip(&accepts) {
        let now = make.now();
        let lease = Lease {
            key: key.clone(),
            run: accept.run.id,
            session,
            alias: None,
            owner,
            fence: Fence(fence),
            attempt: 1,
            worked_ms: 0,
            refusal: None,
            over_budget: Vec::new(),
        };
        let claimed = store.claim(&key, &owner, HOUR, now).await.unwrap();
        assert_eq!(claimed, Claim::Granted(lease.clone()));
        assert_eq!(run(store, &make, accept.run.id).await, running_row(accept, &lease, now));
        let finished = store.finish(&lease, make.completed()).await.unwrap();
        assert_eq!(finished.more, fence < 3);
    }
}

async fn a_session_under_way_is_busy_for_everybody(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let (owner, other) = (enlist(store, &make).await, enlist(store, &make).await);
    let key = make.key("work");
    let lease = start(store, owner, make.accept(&key)).await;
    let waiting = queue(store, make.accept(&key)).await;
    let before = store.snapshot(make.tenant()).await;
    for claimant in [owner, other] {
        let claimed = store.claim(&key, &claimant, HOUR, make.now()).await.unwrap();
        assert_eq!(claimed, Claim::Busy { run: lease.run });
    }
    before.assert_same(&store.snapshot(make.tenant()).await);
    assert_eq!(state(store, &make, waiting).await, RunState::Queued);
    store.finish(&lease, make.completed()).await.unwrap();
}

async fn the_fence_goes_up_with_every_claim_and_abort(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let first = start(store, owner, make.accept(&key)).await;
    for _ in 0..2 {
        queue(store, make.accept(&key)).await;
    }
    store.abort(&make.principal(), first.run, make.now()).await.unwrap();
    let second = claim(store, &make, &key, owner).await;
    assert!(
        second.fence.0 >= first.fence.0 + 2,
        "an abort and a claim: {:?} after {:?}",
        second.fence,
        first.fence
    );
    store.finish(&second, make.completed()).await.unwrap();
    let third = claim(store, &make, &key, owner).await;
    assert!(third.fence > second.fence);
}

async fn a_claim_resolves_the_log_when_it_happens(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let owner = enlist(store, &make).await;
    let key = make.key("work");
    let accepts = [
        make.accept(&key),
        make.accept(&key),
        Accept { session: SessionChoice::Fresh, ..make.accept(&key) },
        make.accept(&key),
    ];
    for accept in &accepts {
        queue(store, accept.clone()).await;
    }
    // The second goes on in the log that the first began, the fourth in the one that the third began.
    let [first, _, third, _] = &accepts;
    let logs = [first, first, third, third].map(|accept| accept.new_session.id);
    for log in logs {
        let lease = claim(store, &make, &key, owner).await;
        assert_eq!(lease.session, log);
        store.finish(&lease, make.completed()).await.unwrap();
    }
}
