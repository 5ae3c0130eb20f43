//! Which turn answers which request: queues that are used up, and turns that always hold.

use std::collections::{HashMap, VecDeque};

use serde::Deserialize;

use super::turn::Turn;

/// The turns that are left, by what was asked for: a model's id, or a path such as `/oauth/token`. `None` is any model.
#[derive(Debug, Default)]
pub(crate) struct Script {
    queues: HashMap<Option<String>, VecDeque<Turn>>,
    always: HashMap<Option<String>, Turn>,
}

/// One row of a script file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Row {
    /// A model's id or a path; without it, any model.
    #[serde(rename = "for")]
    target: Option<String>,
    /// For every such request, and not for the next one only.
    #[serde(default)]
    always: bool,
    turn: Turn,
}

impl Script {
    pub(crate) fn push(&mut self, target: Option<&str>, turn: Turn) {
        self.queues.entry(target.map(str::to_owned)).or_default().push_back(turn);
    }

    pub(crate) fn always(&mut self, target: Option<&str>, turn: Turn) {
        self.always.insert(target.map(str::to_owned), turn);
    }

    pub(crate) fn add(&mut self, rows: Vec<Row>) {
        for row in rows {
            if row.always {
                self.always(row.target.as_deref(), row.turn);
            } else {
                self.push(row.target.as_deref(), row.turn);
            }
        }
    }

    /// The turn for a request that has these names, the most particular first. What is used up comes before what always
    /// holds; turns for any model answer only who asked a model (`any`).
    pub(crate) fn take(&mut self, names: &[&str], any: bool) -> Option<Turn> {
        let mut targets: Vec<_> = names.iter().map(|name| Some((*name).to_owned())).collect();
        if any {
            targets.push(None);
        }
        let queued = targets.iter().find_map(|target| self.queues.get_mut(target)?.pop_front());
        queued.or_else(|| targets.iter().find_map(|target| self.always.get(target).cloned()))
    }

    /// Turns that nobody asked for.
    pub(crate) fn left(&self) -> usize {
        self.queues.values().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_for_the_model_comes_before_one_for_any_and_queues_before_what_always_holds() {
        let mut script = Script::default();
        script.always(None, Turn::say("always"));
        script.always(Some("m"), Turn::say("always m"));
        script.push(None, Turn::say("any"));
        script.push(Some("m"), Turn::say("m"));
        let mut take = |any| script.take(&["m", "/v1/messages"], any);
        assert_eq!(take(true), Some(Turn::say("m")));
        assert_eq!(take(false), Some(Turn::say("always m")));
        assert_eq!(take(true), Some(Turn::say("any")));
        assert_eq!(take(true), Some(Turn::say("always m")));
        assert_eq!(script.take(&["other"], true), Some(Turn::say("always")));
        assert_eq!(script.take(&["/oauth/token"], false), None);
    }
}
