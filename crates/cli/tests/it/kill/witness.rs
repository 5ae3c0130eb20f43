//! What must be in a home: everything acknowledged, once and in order; of the dead asks all or nothing.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde_json::Value;

use super::SIGKILL;
use super::story::{Death, Question, Story};
use crate::home::Home;
use crate::log::{Log, context_of};
use crate::process::Done;

/// Remembers what a home owes.
pub(super) struct Witness<'a> {
    home: &'a Home,
    asked: Vec<Asked>,
}

/// One ask, in the order they were made.
struct Asked {
    question: Question,
    /// What it printed; nothing when it died.
    answer: Option<Value>,
    /// The log it is in, once that is known: also one that died may have been committed.
    session_id: OnceCell<String>,
}

impl<'a> Witness<'a> {
    pub(super) fn new(home: &'a Home) -> Self {
        Self { home, asked: Vec::new() }
    }

    /// Asks everything that comes before any death.
    pub(super) fn play(&mut self, story: &Story) {
        for question in &story.before {
            self.go_on(question);
        }
    }

    /// Lets the one die that is to die before the last.
    pub(super) fn interrupt(&mut self, death: &Death) {
        if let Some((question, death)) = &death.interrupted {
            let killed = question.call(self.home).env("TIDEGATE_FAULT", format!("{death}=kill")).run();
            assert_eq!(killed.signal, Some(SIGKILL), "{killed:?}");
            self.died(question);
        }
    }

    /// Asks, and it must work at once.
    pub(super) fn go_on(&mut self, question: &Question) {
        let done = question.call(self.home).ok();
        self.acknowledged(question, &done);
    }

    pub(super) fn acknowledged(&mut self, question: &Question, done: &Done) {
        let answer = done.json();
        assert_eq!(answer["success"], true, "{done:?}");
        self.asked.push(Asked {
            question: question.clone(),
            answer: Some(answer),
            session_id: OnceCell::new(),
        });
    }

    pub(super) fn died(&mut self, question: &Question) {
        self.asked.push(Asked { question: question.clone(), answer: None, session_id: OnceCell::new() });
    }

    /// Reading works beside a corpse too, and shows everything acknowledged: whoever opens SQLite's file first reads
    /// back the newest commits.
    pub(super) fn look_before_recovery(&self) {
        let runs = self.home.runs();
        for asked in self.asked.iter().filter(|asked| asked.answer.is_some()) {
            assert_eq!(run_of(&runs, asked)["state"], "completed");
        }
    }

    /// Everything is as it must be, after an ask that went through.
    pub(super) fn look(&self) {
        let (logs, current) = self.look_at_runs();
        let sessions = self.home.sessions();
        assert_eq!(sessions.len(), current.len(), "a session without a conversation: {sessions:?}");
        for (session_id, asked) in &logs {
            self.look_at_log(session_id, asked);
        }
        for (name, session_id) in current {
            let row = sessions.iter().find(|row| row["sessionId"] == session_id.as_str()).unwrap();
            assert_eq!(
                (&row["sessionKey"], &row["current"]),
                (&Value::from(name), &Value::Bool(true)),
                "{row}"
            );
        }
        self.sound();
    }

    /// The same as far as one conversation shows it.
    pub(super) fn look_in(&self, session: &str) {
        let (logs, current) = self.look_at_runs();
        let session_id = &current[session];
        self.look_at_log(session_id, &logs[session_id]);
    }

    /// Every ask has its run, ended as it must; answers who is in which log, and which logs are in use.
    fn look_at_runs(&self) -> (BTreeMap<String, Vec<&Asked>>, BTreeMap<&str, String>) {
        let runs = self.home.runs();
        let mut logs: BTreeMap<String, Vec<&Asked>> = BTreeMap::new();
        let mut current: BTreeMap<&str, String> = BTreeMap::new();
        let mut seen = 0;
        for asked in &self.asked {
            let found: Vec<_> =
                runs.iter().filter(|run| run["input"] == asked.question.text.as_str()).collect();
            assert!(found.len() <= 1, "{:?} is there {} times", asked.question, found.len());
            let Some(run) = found.first() else {
                assert!(asked.answer.is_none(), "{:?} was acknowledged and is gone", asked.question);
                continue;
            };
            seen += 1;
            let state = run["state"].as_str().unwrap();
            assert!(!run["finishedAt"].is_null(), "every run has ended: {run}");
            match (&asked.answer, state) {
                (Some(answer), "completed") => assert_eq!(run["requestId"], answer["requestId"]),
                (None, "completed") => {}
                (None, "interrupted") => {
                    assert_eq!(run["error"]["code"], "INTERRUPTED", "{run}");
                    continue;
                }
                _ => panic!("{:?} ended as {state}: {run}", asked.question),
            }
            let session_id = asked.session_id.get_or_init(|| self.session_of(asked, run)).clone();
            current.insert(asked.question.session, session_id.clone());
            logs.entry(session_id).or_default().push(asked);
        }
        assert_eq!(runs.len(), seen, "a run that nobody asked for: {runs:?}");
        (logs, current)
    }

    /// The log and the transcript have these questions and no others, with the answers that were printed.
    fn look_at_log(&self, session_id: &str, asked: &[&Asked]) {
        let log = Log::of(self.home, session_id);
        let questions: Vec<_> = asked.iter().map(|asked| asked.question.text.as_str()).collect();
        assert_eq!(log.questions(), questions, "{session_id}");
        for (at, (asked, kept)) in asked.iter().zip(log.answers()).enumerate() {
            if let Some(answer) = &asked.answer {
                assert_eq!(answer["result"], kept, "what was printed is what is kept");
                assert_eq!(context_of(kept), 2 * at + 1);
            }
        }
    }

    /// The log that a completed run wrote to.
    fn session_of(&self, asked: &Asked, run: &Value) -> String {
        if let Some(answer) = &asked.answer {
            return answer["sessionId"].as_str().unwrap().to_owned();
        }
        let shown = self.home.call(&["runs", "show", run["requestId"].as_str().unwrap(), "--json"]).json();
        let answer = shown["result"].as_str().expect("a completed run has its answer");
        // An echo names its log; a summary does not, and is looked for.
        if let Some((id, _)) = answer.strip_prefix("[stub-echo][").and_then(|rest| rest.split_once(']')) {
            return id.to_owned();
        }
        let answered = self.asked.iter().filter_map(|asked| asked.answer.as_ref());
        let known = answered.map(|answer| answer["sessionId"].as_str().unwrap().to_owned());
        let listed =
            self.home.sessions().into_iter().map(|row| row["sessionId"].as_str().unwrap().to_owned());
        known
            .chain(listed)
            .find(|id| Log::of(self.home, id).questions().contains(&asked.question.text.as_str()))
            .expect("a completed run is in a log")
    }

    fn sound(&self) {
        if self.home.is_sqlite() {
            let connection = rusqlite::Connection::open(self.home.database()).unwrap();
            let verdict: String =
                connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            assert_eq!(verdict, "ok");
        }
    }
}

/// The run of an ask that was answered.
fn run_of<'r>(runs: &'r [Value], asked: &Asked) -> &'r Value {
    let id = &asked.answer.as_ref().expect("it was answered")["requestId"];
    let found: Vec<_> = runs.iter().filter(|run| run["requestId"] == *id).collect();
    assert_eq!(found.len(), 1, "{:?} is there {} times", asked.question, found.len());
    found[0]
}
