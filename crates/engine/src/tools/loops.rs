//! Runs that call the same tool with the same arguments again and again.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_policy::Digest;
use tidegate_protocol::{RunId, ToolCall, ToolResult};
use tidegate_tools::{LoopLimits, Loops, Repeat};

/// What a call that could not be prepared is known by.
pub(super) fn unprepared(call: &ToolCall) -> Digest {
    let mut hash = DefaultHasher::new();
    (&call.name, call.args.to_string()).hash(&mut hash);
    Digest::stored(format!("unprepared {:016x}", hash.finish()))
}

/// One memory a run; forgotten when the run ends.
#[derive(Default)]
pub(crate) struct RunLoops {
    runs: Mutex<HashMap<RunId, Memory>>,
}

struct Memory {
    loops: Loops,
    /// Calls that are not run again, with how often they came.
    stopped: HashMap<Digest, usize>,
}

impl RunLoops {
    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Memory>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often this call came, if it came so often that it is not run again.
    pub(crate) fn stopped(&self, run: RunId, call: &Digest) -> Option<Repeat> {
        self.runs().get(&run)?.stopped.get(call).map(|times| Repeat::Stop(*times))
    }

    /// Takes note of a result.
    pub(crate) fn note(&self, run: RunId, limits: LoopLimits, call: &Digest, result: &ToolResult) -> Repeat {
        let mut runs = self.runs();
        let memory =
            runs.entry(run).or_insert_with(|| Memory { loops: Loops::new(limits), stopped: HashMap::new() });
        let mut hash = DefaultHasher::new();
        result.text().hash(&mut hash);
        let repeat = memory.loops.note(call, hash.finish());
        if let Repeat::Stop(times) = repeat {
            memory.stopped.insert(call.clone(), times);
        }
        repeat
    }

    pub(crate) fn forget(&self, run: RunId) {
        self.runs().remove(&run);
    }
}
