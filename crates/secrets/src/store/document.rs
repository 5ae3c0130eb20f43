//! `profiles.json`: who has an account where, in the clear, and what opens it, sealed.
//!
//! Kept as the JSON it is, so that whatever a newer release wrote into it is still there after we changed something.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::SecretsError;
use crate::profile::{MCP, ProfileId};

const VERSION: u64 = 1;

pub(crate) type Entry = Map<String, Value>;

pub(crate) struct Document {
    path: PathBuf,
    profiles: Map<String, Value>,
    /// The profile that somebody chose for each provider.
    active: Map<String, Value>,
    /// The rest of the file.
    rest: Map<String, Value>,
}

impl Document {
    /// Reads the file's text; no file is an empty document.
    pub(crate) fn read(path: &Path, text: Option<&str>) -> Result<Self, SecretsError> {
        let damaged = |cause: &str| SecretsError::Damaged { path: path.to_owned(), cause: cause.to_owned() };
        let Some(text) = text else { return Ok(Self::empty(path)) };
        let mut rest: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            damaged(&format!("no JSON object at line {}, column {}", error.line(), error.column()))
        })?;
        match rest.get("version").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(version) => return Err(SecretsError::Newer { path: path.to_owned(), version }),
            None => return Err(damaged("it has no version")),
        }
        let Some(Value::Object(profiles)) = rest.shift_remove("profiles") else {
            return Err(damaged("it has no profiles"));
        };
        if profiles.values().any(|entry| !entry.is_object()) {
            return Err(damaged("a profile in it is not an object"));
        }
        let active = match rest.shift_remove("active") {
            None => Map::new(),
            Some(Value::Object(active)) => active,
            Some(_) => return Err(damaged("its active profiles are not an object")),
        };
        Ok(Self { path: path.to_owned(), profiles, active, rest })
    }

    fn empty(path: &Path) -> Self {
        let rest = Map::from_iter([
            ("version".to_owned(), VERSION.into()),
            ("activeProfileId".to_owned(), Value::Null),
        ]);
        Self { path: path.to_owned(), profiles: Map::new(), active: Map::new(), rest }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut root = self.rest.clone();
        root.insert("active".to_owned(), Value::Object(self.active.clone()));
        root.insert("profiles".to_owned(), Value::Object(self.profiles.clone()));
        format!("{:#}\n", Value::Object(root)).into_bytes()
    }

    /// Those whose id can be read, in the order in which they were added.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (ProfileId, &Entry)> {
        self.profiles.iter().filter_map(|(id, entry)| Some((id.parse().ok()?, entry.as_object()?)))
    }

    pub(crate) fn entry(&self, id: &ProfileId) -> Option<&Entry> {
        self.profiles.get(id.as_str())?.as_object()
    }

    pub(crate) fn has_any(&self) -> bool {
        !self.profiles.is_empty()
    }

    /// Adds or replaces an entry. The first of all becomes the active profile; a provider has one when somebody chose it.
    pub(crate) fn set(&mut self, id: &ProfileId, entry: Entry) {
        self.profiles.insert(id.as_str().to_owned(), Value::Object(entry));
        if self.active_profile().is_none() && id.provider() != MCP {
            self.rest.insert("activeProfileId".to_owned(), id.as_str().into());
        }
    }

    pub(crate) fn remove(&mut self, id: &ProfileId) -> bool {
        let was_there = self.profiles.shift_remove(id.as_str()).is_some();
        self.forget_missing_active();
        was_there
    }

    /// Answers how many there were.
    pub(crate) fn remove_all(&mut self) -> usize {
        let count = self.profiles.len();
        self.profiles.clear();
        self.forget_missing_active();
        count
    }

    fn forget_missing_active(&mut self) {
        let profiles = &self.profiles;
        self.active.retain(|_, id| id.as_str().is_some_and(|id| profiles.contains_key(id)));
        if self.active_profile().is_none() {
            self.rest.insert("activeProfileId".to_owned(), Value::Null);
        }
    }

    pub(crate) fn set_active(&mut self, id: &ProfileId) {
        self.active.insert(id.provider().to_owned(), id.as_str().into());
        if id.provider() == MCP {
            return;
        }
        self.rest.insert("activeProfileId".to_owned(), id.as_str().into());
    }

    /// The active profile of a provider, if it is still there.
    pub(crate) fn active(&self, provider: &str) -> Option<ProfileId> {
        self.stored(self.active.get(provider))
    }

    /// The profile that was chosen last, of whatever provider. A login at an MCP server is none that a model is asked
    /// with.
    pub(crate) fn active_profile(&self) -> Option<ProfileId> {
        self.stored(self.rest.get("activeProfileId")).filter(|id| id.provider() != MCP)
    }

    fn stored(&self, id: Option<&Value>) -> Option<ProfileId> {
        let id: ProfileId = id?.as_str()?.parse().ok()?;
        self.profiles.contains_key(id.as_str()).then_some(id)
    }

    /// The keys that something is sealed with, also where the profile itself makes no sense to us.
    pub(crate) fn key_ids(&self) -> BTreeSet<String> {
        self.profiles.values().filter_map(|entry| Some(entry.get("keyId")?.as_str()?.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(root: &Value) -> Document {
        Document::read(Path::new("profiles.json"), Some(&root.to_string())).unwrap()
    }

    fn id(text: &str) -> ProfileId {
        text.parse().unwrap()
    }

    #[test]
    fn what_a_newer_release_wrote_is_kept() {
        let root = json!({
            "version": 1, "activeProfileId": null, "order": {"p": ["p/a"]}, "active": {},
            "profiles": {"p/a": {"type": "passkey", "keyId": "k9", "future": [1]}},
        });
        let mut changed = document(&root);
        changed.set(&id("q/b"), Entry::new());
        assert!(changed.remove(&id("q/b")));
        let written: Value = serde_json::from_slice(&changed.to_bytes()).unwrap();
        assert_eq!(written, root);
        assert_eq!(changed.key_ids(), BTreeSet::from(["k9".to_owned()]));
    }

    #[test]
    fn the_first_profile_becomes_the_active_one_and_a_provider_has_one_when_somebody_chose_it() {
        let mut profiles = Document::read(Path::new("p"), None).unwrap();
        for name in ["p/a", "p/b", "q/c"] {
            profiles.set(&id(name), Entry::new());
        }
        assert_eq!((profiles.active("p"), profiles.active_profile()), (None, Some(id("p/a"))));
        profiles.set_active(&id("p/b"));
        assert_eq!((profiles.active("p"), profiles.active("q")), (Some(id("p/b")), None));
        profiles.remove(&id("p/b"));
        assert_eq!((profiles.active("p"), profiles.active_profile()), (None, None));
        assert_eq!(profiles.remove_all(), 2);
        assert_eq!(profiles.active("q"), None);
    }

    #[test]
    fn a_login_at_an_mcp_server_is_never_the_active_profile() {
        let mut profiles = Document::read(Path::new("p"), None).unwrap();
        profiles.set(&id("mcp/x"), Entry::new());
        assert_eq!(profiles.active_profile(), None);
        profiles.set(&id("p/a"), Entry::new());
        profiles.set_active(&id("mcp/x"));
        assert_eq!(profiles.active_profile(), Some(id("p/a")));
        // As an earlier release may have left it.
        let old = json!({"version": 1, "activeProfileId": "mcp/x", "profiles": {"mcp/x": {}}});
        assert_eq!(document(&old).active_profile(), None);
    }

    #[test]
    fn damage_is_refused_without_quoting_it() {
        for text in [
            "",
            "{\"version\":1,",
            "[]",
            "\"canary\"",
            r#"{"profiles":{}}"#,
            r#"{"version":1}"#,
            r#"{"version":1,"profiles":[]}"#,
            r#"{"version":1,"profiles":{"p/a":"canary"}}"#,
            r#"{"version":1,"profiles":{},"active":"canary"}"#,
        ] {
            let error = Document::read(Path::new("here.json"), Some(text)).map(|_| ()).unwrap_err();
            assert!(matches!(error, SecretsError::Damaged { .. }), "{text}");
            let shown = error.to_string();
            assert!(shown.contains("here.json") && !shown.contains("canary"), "{shown}");
        }
    }
}
