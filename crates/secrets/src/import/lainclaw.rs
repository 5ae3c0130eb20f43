//! `~/.lainclaw/auth-profiles.json`: logins of ChatGPT accounts, in the clear.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{object, secret, text, time_of};
use crate::error::SecretsError;
use crate::profile::{Credential, Profile, ProfileId};

/// The profiles in it, the active one first. An entry without a credential is left out.
pub fn lainclaw(text: &str) -> Result<Vec<Profile>, SecretsError> {
    let root = object(text)?;
    let Some(Value::Object(entries)) = root.get("profiles") else {
        return Err(SecretsError::Import("there are no profiles in it".to_owned()));
    };
    let active = root.get("activeProfileId").and_then(Value::as_str);
    let mut profiles = Vec::new();
    for (id, entry) in entries {
        let Some(profile) = entry.as_object().and_then(|entry| profile(id, entry)) else { continue };
        let at = if active == Some(id.as_str()) { 0 } else { profiles.len() };
        profiles.insert(at, profile);
    }
    Ok(profiles)
}

fn profile(id: &str, entry: &Map<String, Value>) -> Option<Profile> {
    let id: ProfileId = id.parse().ok()?;
    let credential = entry.get("credential")?.as_object()?;
    let created_at = time_of(entry, "createdAt").unwrap_or(0);
    Some(Profile {
        provider: id.provider().to_owned(),
        id,
        credential: Credential::Oauth {
            access: secret(credential, "access")?,
            refresh: secret(credential, "refresh")?,
            expires_at: time_of(credential, "expires").unwrap_or(0),
            account_id: text(credential, "accountId"),
            email: None,
            client_id: None,
            extra: BTreeMap::new(),
        },
        created_at,
        updated_at: time_of(entry, "updatedAt").unwrap_or(created_at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn the_logins_are_read_and_the_active_one_comes_first() {
        let file = r#"{"version":1,"activeProfileId":"openai-codex/acc#2","profiles":{
            "openai-codex/acc":{"id":"openai-codex/acc","provider":"openai-codex",
              "createdAt":"2026-02-23T17:07:31.120Z","updatedAt":5,
              "credential":{"access":"a1","refresh":"r1","expires":99,"accountId":"acc"}},
            "openai-codex/acc#2":{"createdAt":3,"credential":{"access":"a2","refresh":"r2","expires":7}},
            "broken":{"credential":{"access":"x","refresh":"y"}},
            "openai-codex/empty":{"credential":{"access":"","refresh":"y"}}}}"#;
        let profiles = lainclaw(file).unwrap();
        let [second, first] = &profiles[..] else { panic!("{profiles:?}") };
        assert_eq!(second.id.as_str(), "openai-codex/acc#2");
        assert_eq!((second.created_at, second.updated_at), (3, 3));
        assert_eq!((first.created_at, first.updated_at), (1_771_866_451_120, 5));
        let Credential::Oauth { access, refresh, expires_at, account_id, .. } = &first.credential else {
            panic!("{first:?}")
        };
        assert_eq!(
            (access, refresh, *expires_at, account_id.as_deref()),
            (&Secret::new("a1"), &Secret::new("r1"), 99, Some("acc"))
        );
    }

    #[test]
    fn what_is_no_such_file_is_an_error_that_quotes_nothing() {
        for text in ["canary", "[\"canary\"]", r#"{"version":1,"profiles":"canary"}"#] {
            let error = lainclaw(text).unwrap_err().to_string();
            assert!(!error.contains("canary"), "{error}");
        }
    }
}
