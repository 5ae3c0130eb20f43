//! A prepared call: what a tool would do, said by the tool itself before anybody decided.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_protocol::{Risk, Scope, ToolCall, ToolSource};

use crate::digest::{Digest, Writer};
use crate::exec::Plan;

/// On whose behalf and where a call is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requester {
    pub scope: Scope,
    /// The session's key as text; `cli` for a person at the keyboard.
    pub session: String,
    /// The principal's actor.
    pub actor: String,
    /// The folder file tools are held to, as an absolute path.
    pub root: String,
}

/// What kind of thing a rule can look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SubjectKind {
    /// A file or folder, relative to the root, without `.` and `..`; `.` for the root itself.
    Path,
    /// A folder with everything below it, written as a path is. Rules about paths hold for what may be in it.
    Tree,
    /// A host name or address, in lower case, without a port.
    Host,
    /// A whole address.
    Url,
    /// `GET`, `POST`, …
    Method,
}

impl SubjectKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Tree => "tree",
            Self::Host => "host",
            Self::Url => "url",
            Self::Method => "method",
        }
    }
}

/// Something a call touches, in the form in which it will be touched: not what the model wrote.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Subject {
    pub kind: SubjectKind,
    pub value: String,
}

impl Subject {
    pub fn new(kind: SubjectKind, value: impl Into<String>) -> Self {
        Self { kind, value: value.into() }
    }
}

/// What a tool says it would do with some arguments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preparation {
    pub subjects: Vec<Subject>,
    /// The programs it would start, exactly.
    pub plan: Option<Plan>,
    /// For the eyes of whoever approves: a diff, the text to be written. Part of what is approved.
    pub preview: Option<String>,
    /// More that must still be so when the call runs, such as the digest of the file that is edited.
    pub conditions: Vec<(String, String)>,
    /// How dangerous this very call is, where that depends on the arguments; absent: as the tool says.
    pub risk: Option<Risk>,
    /// What it touches does not say what it does there: a yes is for this one call, never for good.
    pub once: bool,
}

/// A call that could run if it were permitted. It is immutable: what is decided about is what runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    call: ToolCall,
    requester: Requester,
    risk: Risk,
    idempotent: bool,
    preparation: Preparation,
    digest: Digest,
}

impl Prepared {
    /// `call.name` is the tool's own name, not an alias. `risk` is the tool's; the preparation may know better.
    pub fn new(
        call: ToolCall,
        requester: Requester,
        risk: Risk,
        idempotent: bool,
        preparation: Preparation,
    ) -> Self {
        let digest = digest(&call, &requester, &preparation);
        let risk = preparation.risk.unwrap_or(risk);
        Self { call, requester, risk, idempotent, preparation, digest }
    }

    pub fn call(&self) -> &ToolCall {
        &self.call
    }

    pub fn tool(&self) -> &str {
        &self.call.name
    }

    pub fn args(&self) -> &Value {
        &self.call.args
    }

    pub fn requester(&self) -> &Requester {
        &self.requester
    }

    pub fn risk(&self) -> Risk {
        self.risk
    }

    pub fn is_idempotent(&self) -> bool {
        self.idempotent
    }

    pub fn subjects(&self) -> &[Subject] {
        &self.preparation.subjects
    }

    pub fn plan(&self) -> Option<&Plan> {
        self.preparation.plan.as_ref()
    }

    pub fn preview(&self) -> Option<&str> {
        self.preparation.preview.as_deref()
    }

    pub fn conditions(&self) -> &[(String, String)] {
        &self.preparation.conditions
    }

    /// Whether a saved rule may be about this call: it is known by what it touches.
    pub fn can_be_named(&self) -> bool {
        // A list of subjects says nothing about programs, and an empty one nothing at all.
        self.preparation.plan.is_none() && !self.preparation.subjects.is_empty() && !self.preparation.once
    }

    /// What an approval of this call is bound to. The call's id is not part of it: asked again, it is the same call.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

fn digest(call: &ToolCall, requester: &Requester, preparation: &Preparation) -> Digest {
    let mut writer = Writer::new("tidegate tool call 1");
    let scope = &requester.scope;
    writer.field("tenant", scope.tenant.as_str());
    writer.field("workspace", scope.workspace.as_str());
    writer.field("agent", scope.agent.as_str());
    writer.field("session", &requester.session);
    writer.field("actor", &requester.actor);
    writer.field("root", &requester.root);
    writer.field("source", source(call.source));
    writer.field("tool", &call.name);
    writer.field("args", &canonical(&call.args));
    writer.count("subjects", preparation.subjects.len());
    for subject in &preparation.subjects {
        writer.field(subject.kind.as_str(), &subject.value);
    }
    match &preparation.plan {
        Some(plan) => plan.write(&mut writer),
        None => writer.count("plan", 0),
    }
    match &preparation.preview {
        Some(preview) => writer.field("preview", preview),
        None => writer.count("no preview", 0),
    }
    writer.count("conditions", preparation.conditions.len());
    for (name, value) in &preparation.conditions {
        writer.field(name, value);
    }
    writer.finish()
}

fn source(source: ToolSource) -> &'static str {
    match source {
        ToolSource::Cli => "cli",
        ToolSource::Model => "model",
        ToolSource::User => "user",
        ToolSource::Api => "api",
    }
}

/// JSON with its keys sorted: the order in which a model wrote them means nothing.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort();
            let fields: Vec<_> = keys
                .into_iter()
                .map(|key| format!("{}:{}", Value::from(key.as_str()), canonical(&map[key])))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
