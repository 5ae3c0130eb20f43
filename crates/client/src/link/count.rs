//! What the numbers of events say: whether one is the next, was told before, or something is missing. Pure.

use tidegate_protocol::api::{Cursor, Done, Hello, Snapshot};

/// What an event's number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Next,
    /// It was told already.
    Again,
    /// Something before it was not heard.
    Gap,
}

fn order(last: u64, number: u64) -> Order {
    if number <= last {
        Order::Again
    } else if number == last + 1 {
        Order::Next
    } else {
        Order::Gap
    }
}

/// What to do about broadcasts after connecting again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AfterBreak {
    /// Nothing was told meanwhile.
    Nothing,
    /// Ask for what was told since, in this process.
    Resume { boot_id: String, after_seq: u64 },
    /// It is another process: what is known must be read again.
    Stale,
}

/// Where one stands among the broadcasts of a process.
#[derive(Debug, Default)]
pub(super) struct Broadcasts {
    boot: Option<String>,
    seq: u64,
}

impl Broadcasts {
    /// A connection was made.
    pub(super) fn met(&mut self, hello: &Hello) -> AfterBreak {
        let boot = &hello.server.boot_id;
        match &self.boot {
            Some(known) if known == boot && hello.seq == self.seq => AfterBreak::Nothing,
            Some(known) if known == boot => AfterBreak::Resume { boot_id: boot.clone(), after_seq: self.seq },
            known => {
                let first = known.is_none();
                (self.boot, self.seq) = (Some(boot.clone()), hello.seq);
                if first { AfterBreak::Nothing } else { AfterBreak::Stale }
            }
        }
    }

    /// A broadcast came; the next one counts.
    pub(super) fn hear(&mut self, seq: u64) -> Order {
        let order = order(self.seq, seq);
        if order == Order::Next {
            self.seq = seq;
        }
        order
    }

    /// From where to hear again.
    pub(super) fn place(&self) -> (String, u64) {
        (self.boot.clone().unwrap_or_default(), self.seq)
    }

    /// What was missed cannot be heard again; from here on everything is.
    pub(super) fn skip_to(&mut self, seq: u64) {
        self.seq = self.seq.max(seq);
    }
}

/// Where one stands in a conversation: in the subscription of this connection, and in the log, whatever becomes of it.
#[derive(Debug, Default)]
pub(super) struct Place {
    n: u64,
    pub(super) cursor: Option<Cursor>,
}

impl Place {
    /// Of a reader that has everything up to here.
    pub(super) fn after(cursor: Option<Cursor>) -> Self {
        Self { n: 0, cursor }
    }

    /// A subscription begins.
    pub(super) fn begin(&mut self) {
        self.n = 0;
    }

    pub(super) fn hear(&mut self, n: u64) -> Order {
        let order = order(self.n, n);
        self.n = self.n.max(n);
        order
    }

    /// The reader has these lines.
    pub(super) fn has_snapshot(&mut self, snapshot: &Snapshot) {
        let lines = snapshot.messages.iter().map(|line| line.seq);
        let newest = lines.chain(snapshot.summaries.iter().map(|line| line.seq)).max();
        match (snapshot.session_id, snapshot.partial) {
            (Some(_), true) => self.reaches(newest),
            (Some(session_id), false) => {
                self.cursor = Some(Cursor { session_id, seq: newest.unwrap_or_default() });
            }
            (None, _) => self.cursor = None,
        }
    }

    pub(super) fn has_done(&mut self, done: &Done) {
        if self.cursor.as_ref().is_none_or(|cursor| cursor.session_id != done.session_id) {
            self.cursor = Some(Cursor { session_id: done.session_id, seq: 0 });
        }
        self.reaches(done.messages.iter().map(|line| line.seq).max());
        self.reaches(done.summaries.iter().map(|line| line.seq).max());
    }

    fn reaches(&mut self, seq: Option<i64>) {
        if let (Some(cursor), Some(seq)) = (self.cursor.as_mut(), seq) {
            cursor.seq = cursor.seq.max(seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::Order::{Again, Gap, Next};
    use super::*;

    fn hello(boot: &str, seq: u64) -> Hello {
        serde_json::from_value(json!({
            "protocol": 1, "server": {"name": "t", "version": "0", "bootId": boot, "connId": "c"}, "seq": seq,
            "me": {"name": "o", "version": "0", "agent": "main"}, "methods": [], "events": [],
            "policy": {"tickMs": 1, "maxFrameBytes": 1, "maxQueuedBytes": 1, "maxRequests": 1},
        }))
        .unwrap()
    }

    #[test]
    fn a_broadcast_is_told_once_and_a_hole_is_seen() {
        let mut broadcasts = Broadcasts::default();
        assert_eq!(broadcasts.met(&hello("a", 7)), AfterBreak::Nothing, "nothing was known before");
        let orders = [8, 8, 7, 10, 9, 10].map(|seq| broadcasts.hear(seq));
        assert_eq!(orders, [Next, Again, Again, Gap, Next, Next]);
        assert_eq!(broadcasts.met(&hello("a", 10)), AfterBreak::Nothing);
        let resume = AfterBreak::Resume { boot_id: "a".into(), after_seq: 10 };
        assert_eq!(broadcasts.met(&hello("a", 12)), resume);
        assert_eq!(broadcasts.hear(11), Next, "what is sent again is heard from where one was");
        assert_eq!(broadcasts.met(&hello("b", 3)), AfterBreak::Stale);
        assert_eq!((broadcasts.hear(3), broadcasts.hear(4)), (Again, Next));
    }

    fn snapshot(id: u8, partial: bool, seqs: &[i64]) -> Snapshot {
        let session = format!("01890a5d-ac96-774b-bcce-b302099a80{id:02x}");
        let line = |seq: &i64| -> Value {
            let run = "01890a5d-ac96-774b-bcce-b302099a8057";
            json!({"seq": seq, "role": "user", "text": "", "at": 0, "runId": run})
        };
        let lines: Vec<_> = seqs.iter().map(line).collect();
        serde_json::from_value(json!({
            "session": "main", "sessionId": session, "partial": partial, "messages": lines, "runs": [],
        }))
        .unwrap()
    }

    #[test]
    fn a_cursor_goes_forward_in_one_log_and_begins_anew_in_another() {
        let mut place = Place::default();
        let mut after = |snapshot: &Snapshot| {
            place.has_snapshot(snapshot);
            place.cursor.as_ref().map(|cursor| cursor.seq)
        };
        assert_eq!(after(&snapshot(1, false, &[1, 2])), Some(2));
        assert_eq!(after(&snapshot(1, true, &[])), Some(2), "nothing new");
        assert_eq!(after(&snapshot(1, true, &[3, 5])), Some(5));
        assert_eq!(after(&snapshot(2, false, &[1])), Some(1), "another log");
        let mut place = Place::default();
        assert_eq!([1, 2, 4].map(|n| place.hear(n)), [Next, Next, Gap]);
        place.begin();
        assert_eq!(place.hear(1), Next);
    }
}
