//! What is asked before and after a death: chosen by a seed, the same every time.

use crate::home::Home;
use crate::process::Call;

/// Random choices that a seed repeats.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn choose<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let at = usize::try_from(self.below(from.len() as u64)).expect("a small number");
        &from[at]
    }
}

/// What came before the ask that dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scene {
    /// Nothing: the home does not exist.
    First,
    /// Some asks in a few sessions.
    Later,
    /// The same, and then one that died.
    AfterInterrupted,
    /// The one that dies begins its session anew.
    NewSession,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) session: &'static str,
    pub(super) text: String,
    pub(super) fresh: bool,
}

const SESSIONS: [&str; 3] = ["main", "work", "会话/ü"];

impl Question {
    /// A question of some shape. `mark` makes its text one of a kind.
    pub(super) fn make(dice: &mut Dice, mark: &str) -> Self {
        let text = match dice.below(6) {
            0 => format!("{mark}: 你好，世界"),
            1 => format!("{mark}: {}", "a long one, ".repeat(700)),
            2 => format!("{mark}: two\nlines \"quoted\""),
            3 => format!("{mark}: a summary, please"),
            _ => mark.to_owned(),
        };
        // The first session is chosen half of the time, so that logs grow.
        let session = if dice.below(2) == 0 { "main" } else { dice.choose(&SESSIONS) };
        Self { session, text: text.trim().to_owned(), fresh: false }
    }

    /// The same question, told apart from its like by a number.
    fn numbered(&self, number: usize) -> Self {
        Self { text: format!("{} #{number}", self.text), ..self.clone() }
    }

    pub(super) fn call(&self, home: &Home) -> Call {
        let mut words = vec!["ask", "--session", self.session];
        if self.fresh {
            words.push("--new-session");
        }
        words.extend(["--", &self.text]);
        home.call(&words)
    }
}

#[derive(Debug)]
pub(super) struct Story {
    pub(super) before: Vec<Question>,
    death: Death,
}

/// An ask that dies, and what is around it.
#[derive(Debug, Clone)]
pub(super) struct Death {
    /// One that dies first, and where.
    pub(super) interrupted: Option<(Question, &'static str)>,
    /// The one that is killed at every point in turn.
    pub(super) last: Question,
    /// The one that comes after, in the same session.
    pub(super) next: Question,
}

impl Story {
    pub(super) fn of(scene: Scene, seed: u64) -> Self {
        const DEATHS: [&str; 6] = [
            "storage.accept.after_commit",
            "models.offline.delta",
            "storage.finish.before_commit",
            "storage.finish.after_commit",
            "engine.mirror.half_written",
            "engine.mirror.written",
        ];
        let mut dice = Dice::new(seed.wrapping_mul(4).wrapping_add(scene as u64));
        let many = if scene == Scene::First { 0 } else { 1 + dice.below(3) };
        let before: Vec<_> = (0..many).map(|at| Question::make(&mut dice, &format!("before {at}"))).collect();
        let interrupted = (scene == Scene::AfterInterrupted).then(|| {
            let death = *dice.choose(&DEATHS);
            (Question::make(&mut dice, "interrupted"), death)
        });
        let mut last = Question::make(&mut dice, "last");
        if scene == Scene::NewSession {
            // There must be an old session for the new one to leave alone.
            last.session = before[0].session;
            last.fresh = true;
        }
        let next = Question { session: last.session, text: "next".to_owned(), fresh: false };
        Self { before, death: Death { interrupted, last, next } }
    }

    /// The death, for the n-th time.
    pub(super) fn death(&self, number: usize) -> Death {
        let Death { interrupted, last, next } = &self.death;
        Death {
            interrupted: interrupted.as_ref().map(|(question, at)| (question.numbered(number), *at)),
            last: last.numbered(number),
            next: next.numbered(number),
        }
    }
}
