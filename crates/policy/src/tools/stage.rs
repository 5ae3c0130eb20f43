//! One stage: lists of names, modes and rules, and what it says about a tool by its name alone.

use std::collections::BTreeMap;

use super::names::{Known, NamePattern};
use super::profile::Profile;
use super::rule::{CheckedRule, Rule, RuleProblem};
use super::{StageKind, Verdict};

/// One stage. It can only narrow.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    pub kind: StageKind,
    /// Where it is configured, such as `agents.list[main].tools`.
    pub source: String,
    /// Only what this profile has as well.
    pub profile: Option<Profile>,
    /// Only these tools, by name, glob or group. Absent, it has no opinion; empty, nothing is allowed. Elsewhere an empty
    /// list allows everything; here a list means what it says, so that taking the last entry out does not open the door.
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
    /// What becomes of calls of these tools: name, glob or group to verdict. Where several fit, the strictest counts;
    /// `allow` takes nothing away and adds nothing.
    pub modes: BTreeMap<String, Verdict>,
    /// The same for all tools of one pattern, where the key is `mode` and names none.
    pub mode: Option<(String, Verdict)>,
    pub rules: Vec<Rule>,
}

/// The first stage: what there is to narrow. Without being in it a tool is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub profile: Profile,
    /// Where the profile is configured, such as `tools.profile`.
    pub source: String,
    /// Joins the profile's own list and nothing else: it never gets past another list.
    pub also_allow: Vec<AlsoAllow>,
}

/// Additions to a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlsoAllow {
    /// Where they are configured, such as `tools.alsoAllow`.
    pub source: String,
    pub tools: Vec<String>,
}

impl Default for Base {
    fn default() -> Self {
        Self { profile: Profile::default(), source: "tools.profile".to_owned(), also_allow: Vec::new() }
    }
}

impl Stage {
    /// A stage without an opinion.
    pub fn new(kind: StageKind, source: impl Into<String>) -> Self {
        Self {
            kind,
            source: source.into(),
            profile: None,
            allow: None,
            deny: Vec::new(),
            modes: BTreeMap::new(),
            mode: None,
            rules: Vec::new(),
        }
    }
}

/// A list that does not do what whoever wrote it may think.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    #[error("{at}: `{pattern}` is the name of no tool")]
    UnknownTool { at: String, pattern: String },
    #[error("{at} allows no tool that exists, so nothing is left")]
    NothingAllowed { at: String },
}

/// A stage, read once.
#[derive(Debug, Clone)]
pub(super) struct CheckedStage {
    pub(super) kind: StageKind,
    source: String,
    profile: Option<(Profile, List)>,
    allow: Option<List>,
    deny: List,
    modes: Vec<(Listed, Verdict)>,
    pub(super) rules: Vec<CheckedRule>,
}

#[derive(Debug, Clone)]
struct List {
    at: String,
    entries: Vec<Listed>,
}

#[derive(Debug, Clone)]
struct Listed {
    at: String,
    pattern: NamePattern,
    written: String,
}

/// What a stage says about a tool by its name.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) verdict: Verdict,
    pub(super) rule: String,
    pub(super) reason: String,
}

impl CheckedStage {
    pub(super) fn base(base: &Base) -> Self {
        Self {
            kind: StageKind::Profile,
            source: base.source.clone(),
            profile: Some((base.profile, List::of_profile(base))),
            allow: None,
            deny: List::new(base.source.clone(), &[]),
            modes: Vec::new(),
            rules: Vec::new(),
        }
    }

    pub(super) fn new(stage: &Stage) -> Result<Self, RuleProblem> {
        let source = &stage.source;
        let profile = stage.profile.map(|profile| {
            let source = format!("{source}.profile");
            (profile, List::of_profile(&Base { profile, source, also_allow: Vec::new() }))
        });
        let mode = |(tool, verdict): (&String, &Verdict)| {
            (Listed::new(format!("{source}.modes.{tool}"), tool), *verdict)
        };
        let only = stage
            .mode
            .iter()
            .map(|(tools, verdict)| (Listed::new(format!("{source}.mode"), tools), *verdict));
        Ok(Self {
            kind: stage.kind,
            source: source.clone(),
            profile,
            allow: stage.allow.as_ref().map(|tools| List::new(format!("{source}.allow"), tools)),
            deny: List::new(format!("{source}.deny"), &stage.deny),
            modes: stage.modes.iter().map(mode).chain(only).collect(),
            rules: stage.rules.iter().map(|rule| CheckedRule::new(source, rule)).collect::<Result<_, _>>()?,
        })
    }

    /// Deny wins, then a list that does not have it, then the strictest mode.
    pub(super) fn named(&self, tool: Known<'_>) -> Named {
        if let Some(entry) = self.deny.find(tool) {
            return Named::denied(&entry.at, format!("{} denies it (`{}`)", entry.at, entry.written));
        }
        let mut granted: Option<&Listed> = None;
        if let Some((profile, list)) = &self.profile {
            let Some(entry) = list.grant(tool) else {
                return Named::denied(
                    &list.at,
                    format!("the profile `{}` does not have it", profile.as_str()),
                );
            };
            granted = Some(entry);
        }
        if let Some(list) = &self.allow {
            let Some(entry) = list.grant(tool) else {
                return Named::denied(&list.at, format!("{} does not have it", list.at));
            };
            granted = Some(entry);
        }
        let fitting = self.modes.iter().filter(|(entry, _)| entry.pattern.covers(tool));
        let strictest = fitting.max_by_key(|(_, verdict)| *verdict);
        if let Some((entry, verdict)) = strictest.filter(|(_, verdict)| *verdict != Verdict::Allow) {
            let reason = match verdict {
                Verdict::Deny => format!("{} denies it", entry.at),
                _ => format!("{} wants somebody's approval", entry.at),
            };
            return Named { verdict: *verdict, rule: entry.at.clone(), reason };
        }
        match granted {
            Some(entry) => Named::allowed(&entry.at, format!("{} has it", entry.at)),
            None => Named::allowed(&self.source, format!("{} has nothing against it", self.source)),
        }
    }

    /// What the lists of this stage name that does not exist.
    pub(super) fn warnings(&self, tools: &[Known<'_>]) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let lists = self.profile.iter().map(|(_, list)| list).chain(&self.allow).chain([&self.deny]);
        let entries = lists.flat_map(|list| &list.entries).chain(self.modes.iter().map(|(entry, _)| entry));
        let unknown = entries.filter(|entry| !tools.iter().any(|tool| entry.pattern.covers(*tool)));
        warnings.extend(
            unknown
                .map(|entry| Warning::UnknownTool { at: entry.at.clone(), pattern: entry.written.clone() }),
        );
        let rules = self.rules.iter().filter(|rule| !tools.iter().any(|tool| rule.tool.covers(*tool)));
        warnings.extend(
            rules.map(|rule| Warning::UnknownTool { at: rule.at.clone(), pattern: rule.written.clone() }),
        );
        if let Some(list) = &self.allow
            && !tools.iter().any(|tool| list.grant(*tool).is_some())
        {
            warnings.push(Warning::NothingAllowed { at: list.at.clone() });
        }
        warnings
    }
}

impl List {
    fn of_profile(base: &Base) -> Self {
        let own = base.profile.tools().iter().map(|tool| Listed::new(base.source.clone(), tool));
        let also =
            base.also_allow.iter().flat_map(|also| Self::new(also.source.clone(), &also.tools).entries);
        Self { at: base.source.clone(), entries: own.chain(also).collect() }
    }

    fn new(at: String, tools: &[String]) -> Self {
        let entries = tools
            .iter()
            .enumerate()
            .map(|(index, tool)| Listed::new(format!("{at}[{index}]"), tool))
            .collect();
        Self { at, entries }
    }

    fn find(&self, tool: Known<'_>) -> Option<&Listed> {
        self.entries.iter().find(|entry| entry.pattern.covers(tool))
    }

    /// The entry that lets a tool through. Whoever may run commands may patch files: a command could do it anyway.
    fn grant(&self, tool: Known<'_>) -> Option<&Listed> {
        self.find(tool).or_else(|| {
            let may_patch = tool.name == "apply_patch";
            may_patch.then(|| self.find(Known { name: "exec", built_in: true })).flatten()
        })
    }
}

impl Listed {
    fn new(at: String, tool: &str) -> Self {
        Self { at, pattern: NamePattern::new(tool), written: tool.to_owned() }
    }
}

impl Named {
    fn denied(rule: &str, reason: String) -> Self {
        Self { verdict: Verdict::Deny, rule: rule.to_owned(), reason }
    }

    fn allowed(rule: &str, reason: String) -> Self {
        Self { verdict: Verdict::Allow, rule: rule.to_owned(), reason }
    }
}
