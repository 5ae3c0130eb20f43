//! What must hold whatever died: looked at from outside, in the networks' folders, the store's reads and the files.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;

use serde_json::Value;
use tidegate_protocol::{Entry, Message, ReplyTarget, Role, RunState};
use tidegate_storage::{OutboxRow, OutboxState, RunRow, SessionRow, check as check_seal};
use tidegate_testkit::host::{Account, scope};
use tidegate_testkit::network::Network;
use tidegate_testkit::snapshot::{ALL, library};
use tidegate_testkit::stores::{Location, ScratchStore};

use super::world::World;

/// How messages were served, to see that a test was about something.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) answered: usize,
    /// Answered with an error.
    pub(super) failed: usize,
    /// Not to be seen, and marked so.
    pub(super) unknown: usize,
    pub(super) dead: usize,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.unknown += other.unknown;
        self.dead += other.dead;
    }
}

/// What nobody may see at any time: a reply twice, in the wrong order, or at the wrong place.
#[track_caller]
pub(super) fn from_outside(world: &World) {
    for account in &world.plan.accounts {
        let network = world.network(*account);
        let name = account.as_str();
        assert_eq!(network.doubled(), Vec::<String>::new(), "{name}: a key is visible twice");
        let posted = network.posted();
        let place: HashMap<&str, usize> =
            posted.iter().zip(0..).map(|(it, at)| (it.id.as_str(), at)).collect();
        let mut last: HashMap<String, usize> = HashMap::new();
        for seen in network.visible() {
            let answers = seen.answers.as_deref().expect("a reply quotes what it answers");
            let at = place[answers];
            assert_eq!(seen.peer, posted[at].peer, "{name}: a reply went to somebody else");
            let before = last.insert(seen.peer.clone(), at);
            assert!(before < Some(at), "{name}: {} got its answer to {answers} late or twice", seen.peer);
        }
    }
}

/// The whole: also that nothing acknowledged is lost, that the log, the files and the seals agree. The host has closed,
/// and everything posted was acknowledged.
pub(super) async fn everything(store: &mut ScratchStore, world: &World) -> Tally {
    from_outside(world);
    store.open().await;
    let view = library(&**store, &scope().tenant).await;
    let mut tally = Tally::default();
    for account in &world.plan.accounts {
        tally.add(served(*account, &world.network(*account), &view.runs, &view.outbox));
    }
    for session in &view.sessions {
        let of_it: Vec<_> = view.entries.iter().filter(|entry| entry.session_id == session.id).collect();
        in_order(session, &of_it, &view.runs);
        transcript(world, session, &of_it);
    }
    no_damaged_transcript(world);
    sealed(store).await;
    store.close().await;
    sound(store);
    tally
}

/// The file is whole. Nobody has it open.
pub(crate) fn sound(store: &ScratchStore) {
    if let Location::Sqlite { path } = store.location() {
        let connection = rusqlite::Connection::open(path).unwrap();
        let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }
}

/// Every message has one run that ended, and one reply or a mark that says why not.
fn served(account: Account, network: &Network, runs: &[RunRow], outbox: &[OutboxRow]) -> Tally {
    let name = account.as_str();
    let mut by_message: BTreeMap<&str, Vec<&RunRow>> = BTreeMap::new();
    for run in runs {
        assert!(run.state.is_terminal(), "{name}: a run has no end: {run:?}");
        match &run.reply {
            ReplyTarget::Channel { account_id, in_reply_to: Some(id), .. } if account_id == name => {
                by_message.entry(id).or_default().push(run);
            }
            _ => {}
        }
    }
    let acknowledged: HashSet<String> = network.acknowledged().into_iter().collect();
    let mut tally = Tally::default();
    for posted in network.posted() {
        let id = posted.id.as_str();
        assert!(acknowledged.contains(id), "{name}: {id} was never acknowledged");
        let Some([run]) = by_message.get(id).map(Vec::as_slice) else {
            panic!("{name}: {id} was acknowledged and has not one run: {:?}", by_message.get(id));
        };
        assert_eq!(run.input.text(), posted.text, "{name}: {id} became another text");
        let parts: Vec<_> = outbox.iter().filter(|part| part.run == run.id).collect();
        let [part] = parts.as_slice() else { panic!("{name}: {id} has not one part: {parts:?}") };
        let seen = network.replies_to(id);
        let key = part.id.to_string();
        assert!(
            seen.iter().all(|seen| seen.key == key),
            "{name}: {id} was answered by another part: {seen:?}"
        );
        match (&part.state, seen.as_slice()) {
            (OutboxState::Sent, [reply]) if run.state == RunState::Completed => {
                assert!(
                    reply.text.ends_with(posted.text.trim_end()),
                    "{name}: {id} got another answer: {reply:?}"
                );
                tally.answered += 1;
            }
            (OutboxState::Sent, [reply]) if run.state == RunState::Failed => {
                let error = run.error.as_ref().expect("a failed run says why");
                assert!(reply.text.contains(error.message.as_str()), "{name}: {id}: {reply:?}, {error:?}");
                tally.failed += 1;
            }
            // Whether it is to be seen is what nobody knows.
            (OutboxState::Unknown, [] | [_]) => tally.unknown += 1,
            (OutboxState::Dead, []) => tally.dead += 1,
            other => panic!("{name}: {id} ended as {} with {other:?}", run.state.as_str()),
        }
    }
    assert_eq!(by_message.len(), network.posted().len(), "{name}: runs that nobody asked for");
    tally
}

/// A log is what its peer wrote and got, in that order and without a gap; turns that failed are not in it.
fn in_order(session: &SessionRow, entries: &[&Entry], runs: &[RunRow]) {
    let mut parent = None;
    for (seq, entry) in (1..).zip(entries) {
        assert_eq!((entry.seq, entry.parent_id), (seq, parent), "{}", session.key);
        parent = Some(entry.id);
    }
    assert_eq!(session.head_seq, i64::try_from(entries.len()).unwrap(), "{}", session.key);
    let mut completed: Vec<_> =
        runs.iter().filter(|run| run.key == session.key && run.state == RunState::Completed).collect();
    // A network's numbers are in the order of posting.
    completed.sort_by_key(|run| number(&run.input));
    let asked: Vec<_> = completed.iter().map(|run| run.input.text()).collect();
    let said = |role: Role| {
        entries.iter().filter_map(|entry| entry.body.message()).filter(move |it| it.role() == role)
    };
    let logged: Vec<_> = said(Role::User).map(Message::text).collect();
    assert_eq!(logged, asked, "{}", session.key);
    assert_eq!(said(Role::Assistant).count(), asked.len(), "{}", session.key);
}

/// The number each text begins with.
fn number(message: &Message) -> usize {
    let text = message.text();
    text.split(':').next().and_then(|number| number.parse().ok()).expect("a text begins with its number")
}

/// The file is the log.
pub(crate) fn transcript(world: &World, session: &SessionRow, entries: &[&Entry]) {
    let name = session.alias.clone().unwrap_or_else(|| session.id.to_string());
    let file = world.home().transcripts(&scope().agent).join(format!("{name}.jsonl"));
    if entries.is_empty() && !file.exists() {
        return;
    }
    let text = fs::read_to_string(&file).expect("a log with entries has its file");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    assert_eq!((lines[0]["type"].as_str(), lines[0]["id"].as_str()), (Some("session"), Some(name.as_str())));
    let written: Vec<_> = lines[1..].iter().map(|line| line["message"].clone()).collect();
    let logged: Vec<_> = entries.iter().map(|entry| serde_json::json!(entry.body.message())).collect();
    assert_eq!(written, logged, "{}", file.display());
}

/// A death is nobody's tampering: it must not look like it.
pub(crate) fn no_damaged_transcript(world: &World) {
    let Ok(files) = fs::read_dir(world.home().transcripts(&scope().agent)) else { return };
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let damaged: Vec<_> = names.filter(|name| name.contains("damaged")).collect();
    assert_eq!(damaged, Vec::<String>::new());
}

/// The trail is whole and complete: a good end leaves nothing unsealed.
pub(crate) async fn sealed(store: &ScratchStore) {
    let tenant = scope().tenant;
    let seals = store.seals(&tenant, 0, ALL).await.unwrap();
    let mut before = None;
    for seal in &seals {
        let rows = store.sealed_rows(&tenant, seal.number).await.unwrap();
        assert_eq!(check_seal(before, seal, &rows), []);
        before = Some(seal);
    }
    assert_eq!(store.unsealed(&tenant).await.unwrap(), 0);
    let ends = store.audit(&tenant, ALL).await.unwrap().len();
    let covered: i64 = seals.iter().map(|seal| seal.rows).sum();
    assert_eq!(usize::try_from(covered).unwrap(), ends);
}
