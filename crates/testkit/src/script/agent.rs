//! The part of a script that is about a run's own steps and about conversations.

use std::fmt::Debug;

use tidegate_protocol::{JoinMode, RunId, SessionKey, SessionSettings, ToolRunState};
use tidegate_storage::{Absorb, Accept, Admission, Finish, Result, Step, Store, StoreError};

use super::{Verb, World};
use crate::requests::{Requests, at_once};

/// A run that the one under way started, and one that this one started; the first is under way too.
pub(super) async fn start_others(
    store: &dyn Store,
    make: &Requests,
    run: RunId,
    tell: &mut (dyn FnMut(Verb, &dyn Debug) + Send),
) -> Result<()> {
    let mut parent = run;
    for (name, claim) in [("child", true), ("grandchild", false)] {
        let mut accept = Accept { claim, ..make.accept_from_channel(&make.key(name)) };
        accept.run.parent = Some(parent);
        accept.reservation = Some(make.reservation(10, super::ROOM));
        let accepted = store.accept(accept).await?;
        tell(Verb::Accept, &accepted);
        if let Admission::Claimed(lease) = &accepted.admission {
            store.step(lease, make.intent(vec![make.user("work")])).await?;
            tell(Verb::Step, &());
        }
        parent = accepted.run;
    }
    Ok(())
}

/// An end of each kind: with something to tell another conversation, failed, or without a conversation to go on with.
pub(super) fn finish(make: &Requests, seed: u64, told: &SessionKey) -> Finish {
    let announce = Accept { reservation: Some(make.reservation(10, super::ROOM)), ..make.accept(told) };
    let ended = match seed % 3 {
        0 => Finish { closes_session: true, entries: Vec::new(), ..make.completed() },
        1 => Finish { announce: Some(Box::new(announce)), context_tokens: Some(77), ..make.completed() },
        _ => make.failed(),
    };
    let parts = vec![make.part("slack:U1", "three"), make.part("slack:U1", "four")];
    Finish { calls: vec![make.call(12), make.call(34)], parts, ..ended }
}

/// Plays a verb of a run, or about a conversation.
pub(super) async fn perform(
    verb: Verb,
    store: &dyn Store,
    make: &Requests,
    seed: u64,
    world: &World,
) -> Result<Box<dyn Debug + Send>> {
    let (lease, odd) = (&world.under_way, seed % 2 == 1);
    Ok(match verb {
        Verb::Step => Box::new(store.step(lease, step(make, odd, &world.tool)).await?),
        Verb::Compact => {
            let mut compaction = make.compaction(3);
            compaction.calls = vec![make.call(5)];
            Box::new(store.compact(lease, compaction).await?)
        }
        Verb::Absorb => {
            let mode = if odd { JoinMode::Steer } else { JoinMode::FollowUp };
            let parts = vec![make.part("slack:U1", "said before")];
            Box::new(store.absorb(lease, Absorb { mode, parts, now: make.now() }).await?)
        }
        Verb::NoteFlush => Box::new(store.note_flush(lease, make.now()).await?),
        Verb::Fork => {
            let key = if odd { make.key("branch") } else { world.ended.clone() };
            let fork = make.fork(world.mirrored.session, 2, &key);
            Box::new(store.fork(&make.principal(), fork).await?)
        }
        Verb::SetTitle => {
            let title = odd.then_some("a title");
            Box::new(store.set_title(&make.principal(), world.mirrored.session, title, make.now()).await?)
        }
        Verb::SetSessionSettings => {
            let key = if odd { make.key("new") } else { world.side.clone() };
            let settings = SessionSettings { model: Some("offline/echo".to_owned()), ..Default::default() };
            Box::new(store.set_session_settings(&make.principal(), &key, settings, make.now()).await?)
        }
        other => return Err(StoreError::Internal(format!("{} is not of a run", other.as_str()))),
    })
}

/// Everything a step may hold, or only a result.
fn step(make: &Requests, odd: bool, open: &Step) -> Step {
    if !odd {
        return make.outcome(open, &ToolRunState::Failed, vec![make.user("result")]);
    }
    let result = make.outcome(open, &ToolRunState::Succeeded, vec![make.user("result")]);
    let next = make.intent(vec![make.assistant("next")]);
    let (calls, parts) = (vec![make.call(9)], vec![make.part("slack:U1", "by the way")]);
    Step { calls, parts, ..at_once(result, next) }
}
