//! Notices a model that goes round in circles: the same call with the same result, again and again, or two such calls in
//! turn. Pure; whoever runs the calls keeps one of these a run.

use std::collections::VecDeque;

use tidegate_policy::Digest;

/// So many different calls in turn still make a circle.
const CIRCLE: usize = 2;

/// When repetition is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopLimits {
    /// The model is told at this many equal calls.
    pub warn_at: usize,
    /// The run of tools ends at this many.
    pub stop_at: usize,
    /// How many of the newest calls are looked at.
    pub window: usize,
}

impl Default for LoopLimits {
    fn default() -> Self {
        Self { warn_at: 3, stop_at: 5, window: 30 }
    }
}

/// What the newest call is in the light of those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    Fine,
    /// It came so often.
    Warn(usize),
    Stop(usize),
}

/// The newest calls of a run with what came of them.
#[derive(Debug, Clone)]
pub struct Loops {
    limits: LoopLimits,
    seen: VecDeque<Seen>,
}

/// A call and its result: equal only when nothing new was learnt.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    call: Digest,
    result: u64,
}

impl Loops {
    pub fn new(limits: LoopLimits) -> Self {
        Self { limits, seen: VecDeque::new() }
    }

    /// Takes note of a call that has its result. `result` is any hash of what the model would read.
    pub fn note(&mut self, call: &Digest, result: u64) -> Repeat {
        self.seen.push_back(Seen { call: call.clone(), result });
        while self.seen.len() > self.limits.window.max(1) {
            self.seen.pop_front();
        }
        let times = self.times();
        match times {
            n if n >= self.limits.stop_at => Repeat::Stop(n),
            n if n >= self.limits.warn_at => Repeat::Warn(n),
            _ => Repeat::Fine,
        }
    }

    /// How often the newest call came in the circle that the newest calls are, if they are one. A call that is not part of
    /// the circle ends it: something was done between.
    fn times(&self) -> usize {
        let Some(newest) = self.seen.back() else { return 0 };
        let mut circle: Vec<&Seen> = Vec::new();
        let mut times = 0;
        for seen in self.seen.iter().rev() {
            if !circle.contains(&seen) {
                if circle.len() == CIRCLE {
                    break;
                }
                circle.push(seen);
            }
            times += usize::from(seen == newest);
        }
        times
    }
}

impl Repeat {
    /// What the model is told, added to the result it got.
    pub fn message(self, tool: &str) -> Option<String> {
        match self {
            Self::Fine => None,
            Self::Warn(times) => Some(format!(
                "Note: {tool} was called {times} times with the same arguments and the same result. Calling it \
                 again will not help; try something else or answer with what is known."
            )),
            Self::Stop(times) => Some(format!(
                "Stopped: {tool} was called {times} times with the same arguments and the same result. It is not \
                 run again in this turn; answer with what is known."
            )),
        }
    }
}
