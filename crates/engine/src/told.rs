//! What a run told while it is under way, kept for whoever comes late, and no more of it than they can use.
//!
//! Neighbouring pieces of text are kept as one text with the places where they meet, so each is still read as it was
//! told. Of what a tool says while it runs only the newest is kept, and nothing once it has ended: its result has it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tidegate_protocol::{RunEvent, RunEventBody, RunId};

/// Everything a run told, by its place: a number that grows with every event, also from one attempt to the next.
#[derive(Default)]
pub(crate) struct Told {
    kept: BTreeMap<u64, Kept>,
    /// The place of the next event.
    next: u64,
    attempt: u32,
    /// The number of the last event in this attempt.
    seq: u64,
    /// Where the newest words of a call under way are.
    updates: HashMap<String, u64>,
    /// The runs whose messages this one has read.
    took_in: Vec<RunId>,
}

enum Kept {
    One(Arc<RunEvent>),
    Words(Words),
}

/// Pieces of text that came one after another.
struct Words {
    run_id: RunId,
    attempt: u32,
    /// The number of the first piece.
    first: u64,
    aloud: bool,
    text: String,
    /// Where each piece ends.
    ends: Vec<usize>,
}

impl Words {
    /// One piece as it was told.
    fn piece(&self, at: usize) -> Option<RunEvent> {
        let end = *self.ends.get(at)?;
        let begin = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let text = self.text.get(begin..end)?.to_owned();
        let body =
            if self.aloud { RunEventBody::TextDelta { text } } else { RunEventBody::ThinkingDelta { text } };
        Some(RunEvent { run_id: self.run_id, attempt: self.attempt, seq: self.first + at as u64, body })
    }
}

impl Told {
    pub(crate) fn attempt(&self) -> u32 {
        self.attempt
    }

    /// An attempt begins, and its events are counted anew.
    pub(crate) fn begin(&mut self, attempt: u32) {
        (self.attempt, self.seq) = (attempt, 0);
        for (_, place) in self.updates.drain() {
            self.kept.remove(&place);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.next == 0
    }

    pub(crate) fn took_in(&self) -> &[RunId] {
        &self.took_in
    }

    pub(crate) fn push(&mut self, run_id: RunId, body: RunEventBody) {
        let place = self.next;
        self.next += 1;
        self.seq += 1;
        match &body {
            RunEventBody::TextDelta { text } => return self.add(place, run_id, true, text),
            RunEventBody::ThinkingDelta { text } => return self.add(place, run_id, false, text),
            RunEventBody::ToolUpdate { call_id, .. } => {
                let before = self.updates.insert(call_id.clone(), place);
                before.map(|before| self.kept.remove(&before));
            }
            RunEventBody::ToolEnded { call_id, .. } => {
                let last = self.updates.remove(call_id);
                last.map(|last| self.kept.remove(&last));
            }
            RunEventBody::Steered { run_id, .. } => self.took_in.push(*run_id),
            _ => {}
        }
        let event = RunEvent { run_id, attempt: self.attempt, seq: self.seq, body };
        self.kept.insert(place, Kept::One(Arc::new(event)));
    }

    fn add(&mut self, place: u64, run_id: RunId, aloud: bool, text: &str) {
        let attempt = self.attempt;
        if let Some((at, Kept::Words(words))) = self.kept.iter_mut().next_back().map(|(at, kept)| (*at, kept))
            && (words.attempt, words.aloud) == (attempt, aloud)
            && at + words.ends.len() as u64 == place
        {
            words.text.push_str(text);
            words.ends.push(words.text.len());
            return;
        }
        let (text, ends) = (text.to_owned(), vec![text.len()]);
        let words = Words { run_id, attempt, first: self.seq, aloud, text, ends };
        self.kept.insert(place, Kept::Words(words));
    }

    /// The first event at this place or behind it that is kept, with the place behind it.
    pub(crate) fn from(&self, place: u64) -> Option<(u64, Arc<RunEvent>)> {
        if let Some((first, Kept::Words(words))) = self.kept.range(..=place).next_back()
            && let Some(piece) = usize::try_from(place - first).ok().and_then(|at| words.piece(at))
        {
            return Some((place + 1, Arc::new(piece)));
        }
        let (at, kept) = self.kept.range(place..).next()?;
        let event = match kept {
            Kept::One(event) => Arc::clone(event),
            Kept::Words(words) => Arc::new(words.piece(0)?),
        };
        Some((at + 1, event))
    }

    /// The text of this attempt, and of how many pieces it is.
    pub(crate) fn text(&self) -> (String, u64) {
        let (mut text, mut pieces) = (String::new(), 0);
        for kept in self.kept.values() {
            if let Kept::Words(words) = kept
                && (words.attempt, words.aloud) == (self.attempt, true)
            {
                text.push_str(&words.text);
                pieces += words.ends.len() as u64;
            }
        }
        (text, pieces)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_protocol::Id as _;

    use super::*;

    fn run() -> RunId {
        RunId::from_parts(1, [0; 10])
    }

    fn aloud(text: &str) -> RunEventBody {
        RunEventBody::TextDelta { text: text.to_owned() }
    }

    fn silently(text: &str) -> RunEventBody {
        RunEventBody::ThinkingDelta { text: text.to_owned() }
    }

    fn update(call: &str, text: &str) -> RunEventBody {
        RunEventBody::ToolUpdate { call_id: call.to_owned(), text: text.to_owned() }
    }

    fn ended(call: &str) -> RunEventBody {
        let (call_id, tool, text) = (call.to_owned(), "exec".to_owned(), "done".to_owned());
        RunEventBody::ToolEnded { call_id, tool, ok: true, text, duration_ms: 1, shadow: false }
    }

    fn read(told: &Told, place: &mut u64) -> Vec<RunEvent> {
        let next = || {
            let (behind, event) = told.from(*place)?;
            *place = behind;
            Some(event.as_ref().clone())
        };
        std::iter::from_fn(next).collect()
    }

    /// How much is kept: bytes of text, and pieces.
    fn size(told: &Told) -> usize {
        let one = |kept: &Kept| match kept {
            Kept::One(event) => serde_json::to_vec(&event.body).unwrap().len(),
            Kept::Words(words) => words.text.len() + size_of_val(words.ends.as_slice()),
        };
        told.kept.values().map(one).sum()
    }

    #[test]
    fn of_a_tool_that_talks_much_only_its_last_words_are_kept_and_none_after_its_end() {
        let mut told = Told::default();
        told.begin(1);
        let page = "x".repeat(1_000);
        for call in 0..50 {
            for other in 0..200 {
                told.push(run(), update(&format!("call-{call}"), &page));
                told.push(run(), update("beside", &format!("{other}")));
            }
            let newest = read(&told, &mut 0);
            assert!(matches!(&newest[..], [.., one, two] if one.seq + 1 == two.seq), "both are there");
            assert!(size(&told) < 20_000, "{}", size(&told));
            told.push(run(), ended(&format!("call-{call}")));
        }
        assert!(size(&told) < 10_000, "{}", size(&told));
        assert_eq!(told.updates.len(), 1);
        told.begin(2);
        assert!(told.updates.is_empty(), "what a tool said in an attempt that is over is of no use");
    }

    #[test]
    fn many_small_pieces_are_one_text() {
        let mut told = Told::default();
        told.begin(1);
        for _ in 0..10_000 {
            told.push(run(), aloud("word"));
        }
        assert_eq!(told.kept.len(), 1);
        assert!(size(&told) <= 10_000 * 12, "{}", size(&told));
        assert_eq!(told.text(), ("word".repeat(10_000), 10_000));
        let pieces = read(&told, &mut 0);
        assert_eq!(pieces.len(), 10_000);
        assert_eq!((pieces[9_999].seq, &pieces[9_999].body), (10_000, &aloud("word")));
    }

    fn event() -> impl Strategy<Value = RunEventBody> {
        prop_oneof![
            4 => "[aé字]{0,3}".prop_map(|text| aloud(&text)),
            2 => "[aé字]{0,3}".prop_map(|text| silently(&text)),
            2 => ("[ab]", "[xy]{1,2}").prop_map(|(call, text)| update(&call, &text)),
            1 => "[ab]".prop_map(|call| ended(&call)),
            1 => Just(RunEventBody::Started),
        ]
    }

    /// Without what is only of use while it is said.
    fn lasting(events: &[RunEvent]) -> Vec<RunEvent> {
        let lasts = |event: &&RunEvent| !matches!(event.body, RunEventBody::ToolUpdate { .. });
        events.iter().filter(lasts).cloned().collect()
    }

    proptest! {
        #[test]
        fn whoever_comes_late_reads_what_the_first_one_read(
            steps in proptest::collection::vec((event(), any::<bool>(), proptest::bool::weighted(0.05)), 0..60),
        ) {
            let mut told = Told::default();
            told.begin(1);
            let (mut expected, mut place, mut live) = (Vec::new(), 0, Vec::new());
            let mut place_of_slow = 0;
            let mut slow = Vec::new();
            for (body, reads, again) in steps {
                if again {
                    told.begin(told.attempt() + 1);
                }
                told.push(run(), body.clone());
                let (attempt, seq) = (told.attempt, told.seq);
                expected.push(RunEvent { run_id: run(), attempt, seq, body });
                live.extend(read(&told, &mut place));
                if reads {
                    slow.extend(read(&told, &mut place_of_slow));
                }
            }
            prop_assert_eq!(&live, &expected, "whoever keeps pace misses nothing");
            slow.extend(read(&told, &mut place_of_slow));
            let late = read(&told, &mut 0);
            prop_assert_eq!(lasting(&slow), lasting(&expected));
            prop_assert_eq!(lasting(&late), lasting(&expected));
        }
    }
}
