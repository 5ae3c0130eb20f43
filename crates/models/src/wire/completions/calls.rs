//! The calls of one answer, put together from pieces that servers number and name in different ways.

use serde_json::Value;

use super::super::{Emit, Key, Names, is_whole_object};
use super::decode::CallDelta;
use crate::stream::BlockKind;

#[derive(Default)]
pub(super) struct Calls {
    names: Names,
    begun: Vec<Call>,
    /// Thoughts that belong to calls and come back with them, by the call's id.
    details: Vec<(String, Value)>,
}

#[derive(Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    /// What came before both the id and the name were known; then the block has it.
    early: String,
    key: Option<Key>,
}

impl Calls {
    pub(super) fn new(names: Names) -> Self {
        Self { names, ..Self::default() }
    }

    pub(super) fn take(&mut self, delta: &CallDelta<'_>, next: &mut Key, emit: &mut Emit) {
        let id = delta.id.as_deref().unwrap_or_default();
        let function = delta.function.as_ref();
        let name = function.and_then(|function| function.name.as_deref()).unwrap_or_default();
        let arguments = function.and_then(|function| function.arguments.as_deref()).unwrap_or_default();
        let at = match self.find(delta.index, id, name, arguments, emit) {
            Some(at) => at,
            None => self.begin(delta.index, next, emit),
        };
        let call = &mut self.begun[at];
        for (known, told) in [(&mut call.id, id), (&mut call.name, name)] {
            // Some servers repeat them with every piece.
            if known.is_empty() {
                told.clone_into(known);
            }
        }
        if call.key.is_none() && !call.id.is_empty() && !call.name.is_empty() {
            call.open(&self.names, next, emit);
        }
        match call.key {
            Some(key) => emit.push(key, arguments),
            None => call.early.push_str(arguments),
        }
    }

    /// The call that a piece continues; none when it begins another.
    fn find(&self, index: Option<u64>, id: &str, name: &str, arguments: &str, emit: &Emit) -> Option<usize> {
        let Some(index) = index else {
            if id.is_empty() && name.is_empty() {
                return self.begun.len().checked_sub(1);
            }
            return self.begun.iter().rposition(|call| !id.is_empty() && call.id == id);
        };
        let at = self.begun.iter().rposition(|call| call.index == Some(index))?;
        let call = &self.begun[at];
        // With a name it is another call if its id is another, or if it has none and the one before is complete: some
        // servers number all calls 0. Without a name it is the same one, whatever its id: some make up one a piece.
        let another = if id.is_empty() {
            !arguments.is_empty() && is_whole_object(call.arguments(emit))
        } else {
            !call.id.is_empty() && call.id != id
        };
        (name.is_empty() || !another).then_some(at)
    }

    fn begin(&mut self, index: Option<u64>, next: &mut Key, emit: &mut Emit) -> usize {
        // Whoever did not tell the id of the call before will not tell it now.
        self.open_nameless(next, emit);
        self.begun.push(Call { index, ..Call::default() });
        self.begun.len() - 1
    }

    /// Gives calls an id that were sent without one. A call without a name is no call.
    fn open_nameless(&mut self, next: &mut Key, emit: &mut Emit) {
        for at in 0..self.begun.len() {
            if self.begun[at].key.is_none() && !self.begun[at].name.is_empty() {
                let mut number = at;
                while self.begun.iter().any(|call| call.id == format!("call_{number}")) {
                    number += 1;
                }
                self.begun[at].id = format!("call_{number}");
                self.begun[at].open(&self.names, next, emit);
            }
        }
    }

    pub(super) fn keep_details(&mut self, details: Vec<Value>) {
        let encrypted = details.into_iter().filter(|detail| detail["type"] == "reasoning.encrypted");
        self.details.extend(encrypted.filter_map(|detail| {
            let id = detail["id"].as_str().filter(|id| !id.is_empty())?.to_owned();
            detail["data"].is_string().then_some((id, detail))
        }));
    }

    /// The answer ended: nothing more will be known of its calls.
    pub(super) fn complete(&mut self, next: &mut Key, emit: &mut Emit) {
        self.open_nameless(next, emit);
        for (id, detail) in self.details.drain(..) {
            let call = self.begun.iter().find(|call| call.id == id);
            if let Some(key) = call.and_then(|call| call.key) {
                emit.sign(key, detail.to_string());
            }
        }
    }
}

impl Call {
    fn open(&mut self, names: &Names, next: &mut Key, emit: &mut Emit) {
        let key = *next;
        *next += 1;
        let name = names.from_wire(&self.name).into_owned();
        emit.open(key, BlockKind::ToolCall { id: self.id.clone(), name });
        emit.push(key, &std::mem::take(&mut self.early));
        self.key = Some(key);
    }

    fn arguments<'a>(&'a self, emit: &'a Emit) -> &'a str {
        self.key.and_then(|key| emit.text(key)).unwrap_or(&self.early)
    }
}
