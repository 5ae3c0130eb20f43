//! What the played vendor does with one request, said without a vendor's words: the same turn is rendered in whichever
//! format it was asked in. Turns are made by tests, or read from a script file.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One thing that happens, in the order of the turn.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Step {
    /// Text, in a few pieces. A second one continues the first.
    Say(String),
    /// The same piece of text many times, made one by one while it is sent.
    Repeat { text: String, times: usize },
    /// Thinking, and what proves to the vendor that it was its own. The signature is base64.
    Think { text: String, signature: String },
    /// Thinking that nobody may read (base64).
    Redacted(String),
    /// A tool call with whole arguments.
    Call { id: String, name: String, arguments: Value },
    /// A tool call that gets no further than this in its arguments. What follows says how it ends: a [`Step::Reset`],
    /// a [`Step::Silence`], or nothing, which is a model that wrote broken JSON.
    PartOfCall { id: String, name: String, json: String },
    /// What it cost; where in the turn does not matter.
    Usage(Tokens),
    /// Why it stops. Without it: for its tool calls if there are any, else because it is done.
    Stop(Stop),
    /// No answer but an error, as HTTP does it.
    Refuse(Refusal),
    /// The vendor's error inside an answer that had begun; the answer ends there.
    ErrorInside(Kind),
    /// Nothing for a while (in a script: milliseconds).
    Pause(#[serde(deserialize_with = "milliseconds")] Duration),
    /// The connection is torn down by a reset.
    Reset,
    /// The connection is closed in the middle of the body.
    Close,
    /// The body ends as it should, and the answer in it does not.
    End,
    /// From here nothing comes, and the connection stays.
    Silence,
    /// The request is read and not even a status comes. Only at the beginning of a turn.
    HalfOpen,
    /// A page of a proxy or a captive portal, with that status.
    Html(u16),
    /// These bytes between the events.
    Raw(#[serde(deserialize_with = "bytes")] Vec<u8>),
    /// Every event twice; holds for the whole turn.
    Duplicate,
    /// Every second event before the one it follows; holds for the whole turn.
    OutOfOrder,
    /// The body in pieces of so many bytes, wherever that cuts; holds for the whole turn.
    SplitEvery(usize),
    /// What embeddings are answered with, one list for each input.
    Vectors(Vec<Vec<f32>>),
}

/// Tokens. `input` is what was neither read from a cache nor written to it; formats that count otherwise get the sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tokens {
    pub input: u64,
    pub output: u64,
    #[serde(default)]
    pub cache_read: u64,
    #[serde(default)]
    pub cache_write: u64,
}

impl Default for Tokens {
    /// What a turn costs that does not say it.
    fn default() -> Self {
        Self { input: 12, output: 7, cache_read: 0, cache_write: 0 }
    }
}

impl Tokens {
    /// Everything that went in, for vendors that count it so.
    pub(crate) fn prompt(&self) -> u64 {
        self.input + self.cache_read + self.cache_write
    }

    pub(crate) fn total(&self) -> u64 {
        self.prompt() + self.output
    }
}

/// Why an answer stops.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stop {
    Done,
    Length,
    Tools,
    /// The vendor's filter, or the model, declined.
    Refused,
    /// A word of the vendor, as it is.
    Other(String),
}

/// An error that vendors tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    Auth,
    Forbidden,
    Billing,
    RateLimit,
    Overloaded,
    Server,
    BadRequest,
    NoSuchModel,
    /// More than the model can read.
    TooLong,
}

impl Kind {
    pub const ALL: [Kind; 9] = [
        Kind::Auth,
        Kind::Forbidden,
        Kind::Billing,
        Kind::RateLimit,
        Kind::Overloaded,
        Kind::Server,
        Kind::BadRequest,
        Kind::NoSuchModel,
        Kind::TooLong,
    ];
}

/// An error before any answer.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Refusal {
    pub kind: Kind,
    /// Instead of the vendor's own status for that kind.
    pub status: Option<u16>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Instead of the vendor's own body.
    pub body: Option<Value>,
}

/// What happens to one request.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(transparent)]
pub struct Turn {
    pub steps: Vec<Step>,
}

impl Turn {
    pub fn new(steps: impl Into<Vec<Step>>) -> Self {
        Self { steps: steps.into() }
    }

    pub fn say(text: &str) -> Self {
        Self::new([Step::Say(text.to_owned())])
    }

    pub fn call(id: &str, name: &str, arguments: Value) -> Self {
        Self::new([Step::Call { id: id.to_owned(), name: name.to_owned(), arguments }])
    }

    /// Refuses as the vendor would.
    pub fn refuse(kind: Kind) -> Self {
        Self::new([Step::Refuse(Refusal { kind, status: None, headers: BTreeMap::new(), body: None })])
    }

    /// Refuses and says when to come back.
    pub fn refuse_for(kind: Kind, seconds: u64) -> Self {
        let headers = BTreeMap::from([("retry-after".to_owned(), seconds.to_string())]);
        Self::new([Step::Refuse(Refusal { kind, status: None, headers, body: None })])
    }

    /// This status and body, whatever was asked.
    pub fn json(status: u16, body: Value) -> Self {
        let refusal =
            Refusal { kind: Kind::Server, status: Some(status), headers: BTreeMap::new(), body: Some(body) };
        Self::new([Step::Refuse(refusal)])
    }

    /// Then this.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    pub(crate) fn tokens(&self) -> Tokens {
        let told = self.steps.iter().rev().find_map(|step| match step {
            Step::Usage(tokens) => Some(*tokens),
            _ => None,
        });
        told.unwrap_or_default()
    }

    pub(crate) fn stop(&self) -> Stop {
        let calls =
            || self.steps.iter().any(|step| matches!(step, Step::Call { .. } | Step::PartOfCall { .. }));
        let told = self.steps.iter().rev().find_map(|step| match step {
            Step::Stop(stop) => Some(stop.clone()),
            _ => None,
        });
        told.unwrap_or_else(|| if calls() { Stop::Tools } else { Stop::Done })
    }

    /// The answer as it is when nothing cuts it: what a vendor gives to somebody who did not ask for a stream.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        for step in &self.steps {
            match step {
                Step::Say(text) => say(&mut blocks, text),
                Step::Repeat { text, times } => say(&mut blocks, &text.repeat(*times)),
                Step::Think { text, signature } => {
                    blocks.push(Block::Thinking { text: text.clone(), signature: signature.clone() });
                }
                Step::Redacted(data) => blocks.push(Block::Redacted(data.clone())),
                Step::Call { id, name, arguments } => {
                    let json = arguments.to_string();
                    blocks.push(Block::Call { id: id.clone(), name: name.clone(), json });
                }
                Step::PartOfCall { id, name, json } => {
                    blocks.push(Block::Call { id: id.clone(), name: name.clone(), json: json.clone() });
                }
                _ => {}
            }
        }
        blocks
    }
}

/// A part of a whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Block {
    Text(String),
    Thinking { text: String, signature: String },
    Redacted(String),
    Call { id: String, name: String, json: String },
}

/// Text after text is one block.
fn say(blocks: &mut Vec<Block>, more: &str) {
    if let Some(Block::Text(text)) = blocks.last_mut() {
        text.push_str(more);
    } else {
        blocks.push(Block::Text(more.to_owned()));
    }
}

fn milliseconds<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    String::deserialize(from).map(String::into_bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_script_says_every_step() {
        let script = json!([
            {"say": "hi"}, {"repeat": {"text": "x", "times": 3}}, {"think": {"text": "t", "signature": "c2ln"}},
            {"redacted": "ZGF0YQ=="}, {"call": {"id": "c1", "name": "f", "arguments": {"a": 1}}},
            {"partOfCall": {"id": "c2", "name": "f", "json": "{\"a"}}, {"usage": {"input": 1, "output": 2}},
            {"stop": "length"}, {"stop": {"other": "odd"}}, {"refuse": {"kind": "rateLimit", "headers": {"retry-after": "7"}}},
            {"errorInside": "overloaded"}, {"pause": 250}, "reset", "close", "end", "silence", "halfOpen",
            {"html": 502}, {"raw": "bytes"}, "duplicate", "outOfOrder", {"splitEvery": 3}, {"vectors": [[1.0, 0.5]]},
        ]);
        let turn: Turn = serde_json::from_value(script).unwrap();
        assert_eq!(turn.steps.len(), 23);
        assert_eq!(turn.steps[11], Step::Pause(Duration::from_millis(250)));
        assert_eq!(turn.steps[18], Step::Raw(b"bytes".to_vec()));
        assert!(serde_json::from_value::<Turn>(json!([{"sing": "la"}])).is_err());
    }

    #[test]
    fn a_turn_with_calls_stops_for_them_unless_it_says_otherwise() {
        assert_eq!(Turn::say("a").stop(), Stop::Done);
        assert_eq!(Turn::call("c", "f", json!({})).stop(), Stop::Tools);
        assert_eq!(Turn::call("c", "f", json!({})).then(Step::Stop(Stop::Length)).stop(), Stop::Length);
    }

    #[test]
    fn text_after_text_is_one_block() {
        let turn = Turn::say("a")
            .then(Step::Pause(Duration::ZERO))
            .then(Step::Repeat { text: "b".into(), times: 2 });
        assert_eq!(turn.blocks(), [Block::Text("abb".into())]);
    }
}
