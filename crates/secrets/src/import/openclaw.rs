//! `auth-profiles.json` of OpenClaw, and the older `auth.json`, which maps a provider to its one credential.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{object, secret, text, time_of};
use crate::error::SecretsError;
use crate::profile::{Credential, Profile, ProfileId};

/// Fields of a login that are told to the provider.
const EXTRA: [&str; 2] = ["enterpriseUrl", "projectId"];

/// The profiles in it; in the older file each is named `default`. An entry without a credential is left out. Times of
/// making are not in these files, so they are 0.
pub fn openclaw(text: &str) -> Result<Vec<Profile>, SecretsError> {
    let root = object(text)?;
    if let Some(profiles) = root.get("profiles") {
        let Value::Object(entries) = profiles else {
            return Err(SecretsError::Import("its profiles are not an object".to_owned()));
        };
        return Ok(entries.iter().filter_map(|(id, entry)| profile(id.parse().ok()?, entry)).collect());
    }
    let named = |provider: &str, entry: &Value| profile(ProfileId::new(provider, "default").ok()?, entry);
    Ok(root.iter().filter_map(|(provider, entry)| named(provider, entry)).collect())
}

fn profile(id: ProfileId, entry: &Value) -> Option<Profile> {
    let credential = credential(entry.as_object()?)?;
    Some(Profile { provider: id.provider().to_owned(), id, credential, created_at: 0, updated_at: 0 })
}

fn credential(entry: &Map<String, Value>) -> Option<Credential> {
    let email = text(entry, "email");
    // The oldest files wrote `mode` for `type`.
    let kind = text(entry, "type").or_else(|| text(entry, "mode"))?;
    Some(match kind.as_str() {
        "api_key" => Credential::ApiKey { key: secret(entry, "key")?, email },
        "token" => {
            Credential::Token { token: secret(entry, "token")?, expires_at: time_of(entry, "expires"), email }
        }
        "oauth" => Credential::Oauth {
            access: secret(entry, "access")?,
            refresh: secret(entry, "refresh")?,
            expires_at: time_of(entry, "expires").unwrap_or(0),
            account_id: text(entry, "accountId"),
            email,
            client_id: text(entry, "clientId"),
            extra: EXTRA
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), text(entry, name)?)))
                .collect::<BTreeMap<_, _>>(),
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn every_kind_of_profile_is_read() {
        let file = r#"{"version":1,"order":{"anthropic":["anthropic:b"]},"profiles":{
            "anthropic:b":{"type":"api_key","provider":"anthropic","key":"k","email":"a@b.c"},
            "anthropic:t":{"type":"token","provider":"anthropic","token":"t","expires":12},
            "github-copilot:me":{"type":"oauth","provider":"github-copilot","access":"a","refresh":"r",
              "expires":34.0,"clientId":"c","enterpriseUrl":"ghe.example","accountId":"acc"},
            "x:empty":{"type":"api_key","key":" "},
            "x:new":{"type":"passkey"},
            "nonsense":5}}"#;
        let profiles = openclaw(file).unwrap();
        let ids: Vec<_> = profiles.iter().map(|profile| profile.id.as_str()).collect();
        assert_eq!(ids, ["anthropic/b", "anthropic/t", "github-copilot/me"]);
        let credentials: Vec<_> = profiles.into_iter().map(|profile| profile.credential).collect();
        assert_eq!(
            credentials,
            [
                Credential::ApiKey { key: Secret::new("k"), email: Some("a@b.c".into()) },
                Credential::Token { token: Secret::new("t"), expires_at: Some(12), email: None },
                Credential::Oauth {
                    access: Secret::new("a"),
                    refresh: Secret::new("r"),
                    expires_at: 34,
                    account_id: Some("acc".into()),
                    email: None,
                    client_id: Some("c".into()),
                    extra: [("enterpriseUrl".to_owned(), "ghe.example".to_owned())].into(),
                },
            ]
        );
    }

    #[test]
    fn the_older_file_has_one_profile_a_provider() {
        let file = r#"{"openai":{"type":"api_key","key":"k"},"anthropic":{"mode":"oauth","access":"a","refresh":"r"}}"#;
        let profiles = openclaw(file).unwrap();
        let ids: Vec<_> = profiles.iter().map(|profile| profile.id.as_str()).collect();
        assert_eq!(ids, ["openai/default", "anthropic/default"]);
    }

    #[test]
    fn what_is_no_such_file_is_an_error_that_quotes_nothing() {
        for text in ["canary", "[\"canary\"]", r#"{"profiles":["canary"]}"#] {
            let error = openclaw(text).unwrap_err().to_string();
            assert!(!error.contains("canary"), "{error}");
        }
    }
}
