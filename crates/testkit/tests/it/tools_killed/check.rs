//! What must hold whatever died: the log, the world and the store tell the same story, and nothing happened twice.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_protocol::{
    Block, Entry, EntryBody, Message, Place, ReplyTarget, RunId, RunState, SessionKey, ToolRunState,
};
use tidegate_storage::{OutboxState, RunRow};
use tidegate_testkit::host::{Account, noted, scope};
use tidegate_testkit::snapshot::{LibraryView, library};
use tidegate_testkit::stores::ScratchStore;

use super::script::{NOTE_CALL, NOTES};
use super::story::Stage;
use crate::delivery::check::{no_damaged_transcript, sealed, sound, transcript};

/// What people are told when their conversation was summed up.
const NOTICE: &str = "(This conversation has grown long: what came first is now a summary.)";

/// How calls and messages ended, to see that a test was about something.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    pub(super) done: usize,
    pub(super) interrupted: usize,
    /// Of those: what the call was to do did happen.
    pub(super) happened: usize,
    pub(super) skipped: usize,
    pub(super) joined: usize,
    pub(super) summed_up: usize,
    /// Notes that were written before that.
    pub(super) noted: usize,
    pub(super) announced: usize,
    /// Messages to other conversations.
    pub(super) sent: usize,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.done += other.done;
        self.interrupted += other.interrupted;
        self.happened += other.happened;
        self.skipped += other.skipped;
        self.joined += other.joined;
        self.summed_up += other.summed_up;
        self.noted += other.noted;
        self.announced += other.announced;
        self.sent += other.sent;
    }
}

/// What nobody may see at any time.
#[track_caller]
pub(super) fn from_outside(stage: &Stage) {
    for account in &stage.plan.accounts {
        let network = stage.network(*account);
        assert_eq!(network.doubled(), Vec::<String>::new(), "a key is visible twice");
    }
    for (id, times) in counted(noted(&stage.plan.world)) {
        assert_eq!(times, 1, "{id} ran {times} times");
    }
}

/// The whole. The host has closed and nothing was left to do.
pub(super) async fn everything(store: &mut ScratchStore, stage: &Stage) -> Tally {
    from_outside(stage);
    store.open().await;
    let view = library(&**store, &scope().tenant).await;
    let mut tally = Tally::default();
    ended(&view, &mut tally);
    for account in &stage.plan.accounts {
        served(stage, *account, &view);
    }
    for session in &view.sessions {
        let entries: Vec<&Entry> =
            view.entries.iter().filter(|entry| entry.session_id == session.id).collect();
        unbroken(&session.key, &entries);
        paired(&session.key, &entries);
        transcript(stage, session, &entries);
    }
    effects(stage, &view, &mut tally);
    tally.noted = notes(stage, &view);
    announced(&view, &mut tally);
    tally.summed_up =
        view.entries.iter().filter(|entry| matches!(entry.body, EntryBody::Compaction(_))).count();
    no_damaged_transcript(stage);
    sealed(store).await;
    store.close().await;
    sound(store);
    tally
}

/// Every run came to a good end: no death makes one fail. No call is left open, and nothing waits to go out.
fn ended(view: &LibraryView, tally: &mut Tally) {
    for run in &view.runs {
        match run.state {
            RunState::Completed => {}
            RunState::Joined => tally.joined += 1,
            _ => panic!("a run ended badly: {run:?}"),
        }
    }
    for tool in &view.tool_runs {
        assert_ne!(tool.state, ToolRunState::Intended, "{tool:?}");
    }
    for part in &view.outbox {
        assert_eq!(part.state, OutboxState::Sent, "{part:?}");
    }
}

/// Every message has one run and stands in the log once, in the order of posting; and what its network shows is what
/// the log says, in that order.
fn served(stage: &Stage, account: Account, view: &LibraryView) {
    let (name, network) = (account.as_str(), stage.network(account));
    let posted = network.posted();
    assert_eq!(network.acknowledged().len(), posted.len(), "{name}: something was never acknowledged");
    let mut key: Option<&SessionKey> = None;
    for posted in &posted {
        let runs: Vec<&RunRow> = view.runs.iter().filter(|run| run.input.text() == posted.text).collect();
        let [run] = runs.as_slice() else { panic!("{name}: {} has not one run: {runs:?}", posted.id) };
        let answers = matches!(
            &run.reply,
            ReplyTarget::Channel { account_id, in_reply_to: Some(id), .. }
                if account_id == name && *id == posted.id
        );
        assert!(answers, "{name}: {} is answered elsewhere: {:?}", posted.id, run.reply);
        assert!(key.is_none_or(|key| *key == run.key), "{name}: two conversations");
        key = Some(&run.key);
    }
    let Some(key) = key else { return };
    let asked: Vec<String> = posted.iter().map(|posted| posted.text.clone()).collect();
    assert_eq!(heard(view, key), asked, "{name}: the log has other messages, or in another order");
    let visible = network.visible().into_iter().map(|seen| seen.text);
    let (notices, shown): (Vec<String>, Vec<String>) = visible.partition(|text| text == NOTICE);
    assert_eq!(shown, said(view, key), "{name}: the network shows something else than the log");
    assert_eq!(
        notices.len(),
        summaries(view, key),
        "{name}: behind an answer people are told once of its summaries"
    );
}

/// In how many runs a conversation was summed up.
fn summaries(view: &LibraryView, key: &SessionKey) -> usize {
    let logs: Vec<_> =
        view.sessions.iter().filter(|session| session.key == *key).map(|session| session.id).collect();
    let summed_up = |entry: &&Entry| matches!(entry.body, EntryBody::Compaction(_));
    let entries = view.entries.iter().filter(|entry| logs.contains(&entry.session_id)).filter(summed_up);
    let runs: std::collections::BTreeSet<String> = entries.map(|entry| entry.run_id.to_string()).collect();
    runs.len()
}

fn messages<'v>(view: &'v LibraryView, key: &SessionKey) -> impl Iterator<Item = &'v Message> {
    let logs: Vec<_> =
        view.sessions.iter().filter(|session| session.key == *key).map(|session| session.id).collect();
    let entries = view.entries.iter().filter(move |entry| logs.contains(&entry.session_id));
    entries.filter_map(|entry| entry.body.message())
}

/// What people wrote, without what other runs announced.
fn heard(view: &LibraryView, key: &SessionKey) -> Vec<String> {
    let users = messages(view, key).filter(|message| matches!(message, Message::User { .. }));
    users.map(Message::text).filter(|text| !is_announcement(text)).collect()
}

fn said(view: &LibraryView, key: &SessionKey) -> Vec<String> {
    let answers = messages(view, key).filter(|message| matches!(message, Message::Assistant { .. }));
    answers.map(Message::text).filter(|text| !text.is_empty()).collect()
}

fn is_announcement(text: &str) -> bool {
    text.starts_with("The task ") && text.contains("that you started")
}

/// A log has no gap.
fn unbroken(key: &SessionKey, entries: &[&Entry]) {
    let mut parent = None;
    for (seq, entry) in (1..).zip(entries) {
        assert_eq!((entry.seq, entry.parent_id), (seq, parent), "{key}");
        parent = Some(entry.id);
    }
}

/// Behind every answer with calls stand their results, one each, before anybody says anything else; and every run ends
/// with an answer.
fn paired(key: &SessionKey, entries: &[&Entry]) {
    let mut open: Vec<String> = Vec::new();
    let mut last: BTreeMap<RunId, bool> = BTreeMap::new();
    for entry in entries {
        let Some(message) = entry.body.message() else { continue };
        match message {
            Message::ToolResult { tool_call_id, .. } => {
                let at = open.iter().position(|id| id == tool_call_id);
                open.remove(at.unwrap_or_else(|| panic!("{key}: {tool_call_id} has two results or no call")));
            }
            other => {
                assert_eq!(open, Vec::<String>::new(), "{key}: no result before {:?}", other.text());
                open = calls(other).map(|(id, _)| id.to_owned()).collect();
            }
        }
        let is_answer = matches!(message, Message::Assistant { .. }) && open.is_empty();
        last.insert(entry.run_id, is_answer);
    }
    assert_eq!(open, Vec::<String>::new(), "{key}: no result at the end");
    let unanswered: Vec<_> = last.into_iter().filter(|(_, is_answer)| !is_answer).collect();
    assert_eq!(unanswered, [], "{key}: a run ended without an answer");
}

fn calls(message: &Message) -> impl Iterator<Item = (&str, &str)> {
    message.content().iter().filter_map(|block| match block {
        Block::ToolCall { id, name, .. } => Some((id.as_str(), name.as_str())),
        _ => None,
    })
}

/// What a call came to, as the model was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Done,
    Interrupted,
    Skipped,
}

/// The result of every call, by its id. No id comes twice: a run that is begun again does not begin anew.
fn results(view: &LibraryView) -> BTreeMap<&str, Told> {
    let mut results = BTreeMap::new();
    for message in view.entries.iter().filter_map(|entry| entry.body.message()) {
        let Message::ToolResult { tool_call_id, is_error, details, .. } = message else { continue };
        let is_interrupted =
            details.as_ref().is_some_and(|details| details["interrupted"] == Value::Bool(true));
        let told = match (is_error, is_interrupted) {
            (false, _) => Told::Done,
            (true, true) => Told::Interrupted,
            (true, false) if message.text().starts_with("skipped: the user") => Told::Skipped,
            (true, false) => panic!("{tool_call_id} failed: {}", message.text()),
        };
        let before = results.insert(tool_call_id.as_str(), told);
        assert_eq!(before, None, "{tool_call_id} was called twice");
    }
    results
}

/// What the calls did: once if the model was told so, not at all if it was told that, and at most once if nobody knows.
fn effects(stage: &Stage, view: &LibraryView, tally: &mut Tally) {
    let results = results(view);
    let marks = counted(noted(&stage.plan.world));
    for id in marks.keys() {
        assert!(results.contains_key(id.as_str()), "{id} ran and nobody called for it");
    }
    let notes = stage.home().workspace(&scope().agent).join("memory");
    for (id, told) in results {
        let times = match id.split_at(1) {
            ("a", _) => marks.get(id).copied().unwrap_or(0),
            ("b", _) => {
                let text = std::fs::read_to_string(notes.join(format!("{id}.md"))).unwrap_or_default();
                // Behind it stands where it came from.
                let begins = format!("- {id} [");
                text.lines().filter(|line| line.starts_with(&begins)).count()
            }
            // These change nothing but rows of our own, so what came of them is known.
            ("s", number) => {
                assert_eq!(told, Told::Done, "{id}");
                runs_for(view, &format!("child {number}.")).count()
            }
            ("m", number) => {
                assert_eq!(told, Told::Done, "{id}");
                tally.sent += 1;
                runs_for(view, &format!("more {number}.")).count()
            }
            _ => {
                assert_ne!(told, Told::Interrupted, "{id} only looks");
                continue;
            }
        };
        match (told, times) {
            (Told::Done, 1) => tally.done += 1,
            (Told::Interrupted, 0) => tally.interrupted += 1,
            (Told::Interrupted, 1) => {
                tally.interrupted += 1;
                tally.happened += 1;
            }
            (Told::Skipped, 0) => tally.skipped += 1,
            other => panic!("{id}: {other:?}"),
        }
    }
}

/// The runs that were asked this, whoever is said to ask.
fn runs_for<'v>(view: &'v LibraryView, text: &str) -> impl Iterator<Item = &'v RunRow> {
    view.runs.iter().filter(move |run| {
        let asked = run.input.text();
        asked == text || asked.ends_with(&format!("\n\n{text}"))
    })
}

/// The notes before a summary: each call that ended well wrote one, each that was cut off one or none.
fn notes(stage: &Stage, view: &LibraryView) -> usize {
    let file = stage.home().workspace(&scope().agent).join("memory").join(NOTES);
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let written = text.lines().filter(|line| line.starts_with("- before [")).count();
    let of_flush = view.tool_runs.iter().filter(|tool| tool.call_id == format!("flush:{NOTE_CALL}"));
    let ended = |state: &ToolRunState| of_flush.clone().filter(|tool| tool.state == *state).count();
    let (done, cut_off) = (ended(&ToolRunState::Succeeded), ended(&ToolRunState::Interrupted));
    assert_eq!(of_flush.clone().count(), done + cut_off, "a note neither written nor cut off");
    assert!(done <= written && written <= done + cut_off, "{written} notes of {done}, {cut_off} cut off");
    written
}

/// What every child said is announced to whoever started it, once.
fn announced(view: &LibraryView, tally: &mut Tally) {
    for child in view.runs.iter().filter(|run| matches!(run.key.place, Place::Sub { .. })) {
        let ReplyTarget::Announce { key, .. } = &child.reply else {
            assert_eq!(child.reply, ReplyTarget::Session, "{child:?}");
            continue;
        };
        let begins = format!("The task {:?}", child.input.text());
        let told = messages(view, key).filter(|message| message.text().starts_with(&begins)).count();
        assert_eq!(told, 1, "{begins} was announced {told} times");
        let number = child.input.text().replace("child ", "");
        let answers =
            said(view, key).iter().filter(|text| **text == format!("The child told {number}")).count();
        // Two that come at once are answered with one word.
        assert!(answers <= 1, "{begins} was answered {answers} times");
        tally.announced += 1;
    }
}

fn counted(ids: Vec<String>) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for id in ids {
        *counted.entry(id).or_default() += 1;
    }
    counted
}
