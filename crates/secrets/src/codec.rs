//! How a credential is written: what may be seen in the clear, and the rest, which is sealed.
//!
//! The only place where secrets become bytes on their way to the disk; the bytes are wiped after sealing. Fields of a
//! newer release are kept, in the clear part and in the sealed one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::profile::Credential;
use crate::secret::Secret;

const SEALED_FIELDS: [&str; 5] = ["key", "token", "access", "refresh", "extra"];

#[derive(Serialize)]
struct Plain<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    access: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refresh: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'a BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Opened {
    key: Option<Secret>,
    token: Option<Secret>,
    access: Option<Secret>,
    refresh: Option<Secret>,
    #[serde(default)]
    extra: BTreeMap<String, String>,
}

/// The part to be sealed. `previous` is what was sealed in its place before: fields there that this release does not
/// know go along.
pub(crate) fn plain(credential: &Credential, previous: Option<&[u8]>) -> Zeroizing<Vec<u8>> {
    let mut plain = Plain { key: None, token: None, access: None, refresh: None, extra: None };
    match credential {
        Credential::ApiKey { key, .. } => plain.key = Some(key.expose()),
        Credential::Token { token, .. } => plain.token = Some(token.expose()),
        Credential::Oauth { access, refresh, extra, .. } => {
            plain.access = Some(access.expose());
            plain.refresh = Some(refresh.expose());
            plain.extra = (!extra.is_empty()).then_some(extra);
        }
    }
    // Room for all of it, so that no smaller copy is left behind unwiped.
    let mut bytes = Zeroizing::new(Vec::with_capacity(16 << 10));
    let mut written = serde_json::Serializer::new(&mut *bytes);
    // Texts and maps of texts cannot fail to be written.
    let _ = plain.serialize(&mut written);
    let unknown = previous.map(unknown_fields).unwrap_or_default();
    if unknown.is_empty() {
        return bytes;
    }
    let mut all: Map<String, Value> = serde_json::from_slice(&bytes).unwrap_or_default();
    all.extend(unknown);
    Zeroizing::new(Value::Object(all).to_string().into_bytes())
}

fn unknown_fields(sealed: &[u8]) -> Map<String, Value> {
    let fields: Map<String, Value> = serde_json::from_slice(sealed).unwrap_or_default();
    fields.into_iter().filter(|(name, _)| !SEALED_FIELDS.contains(&name.as_str())).collect()
}

/// Writes what may be seen into a profile's entry; what does not apply is taken out, what is unknown stays.
pub(crate) fn describe(credential: &Credential, entry: &mut Map<String, Value>) {
    let text = |text: Option<&str>| text.map(Value::from);
    let client = match credential {
        Credential::Oauth { client_id, .. } => client_id.as_deref(),
        _ => None,
    };
    for (name, value) in [
        ("type", Some(credential.kind().into())),
        ("accountId", text(credential.account_id())),
        ("email", text(credential.email())),
        ("expires", credential.expires_at().map(Value::from)),
        ("clientId", text(client)),
    ] {
        match value {
            Some(value) => entry.insert(name.to_owned(), value),
            None => entry.shift_remove(name),
        };
    }
}

/// What came of reading a credential.
#[derive(Debug, PartialEq)]
pub(crate) enum Decoded {
    Known(Credential),
    UnknownKind,
    /// It could be opened and makes no sense.
    Nonsense,
}

pub(crate) fn decode(kind: &str, entry: &Map<String, Value>, plain: &[u8]) -> Decoded {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
    let expires = entry.get("expires").and_then(Value::as_i64);
    let email = text("email");
    if !matches!(kind, "api_key" | "token" | "oauth") {
        return Decoded::UnknownKind;
    }
    let Ok(opened) = serde_json::from_slice::<Opened>(plain) else { return Decoded::Nonsense };
    let credential = match kind {
        "api_key" => opened.key.map(|key| Credential::ApiKey { key, email }),
        "token" => opened.token.map(|token| Credential::Token { token, expires_at: expires, email }),
        _ => opened.access.zip(opened.refresh).map(|(access, refresh)| Credential::Oauth {
            access,
            refresh,
            // One that does not say when it ends is refreshed before it is used.
            expires_at: expires.unwrap_or(0),
            account_id: text("accountId"),
            email,
            client_id: text("clientId"),
            extra: opened.extra,
        }),
    };
    credential.map_or(Decoded::Nonsense, Decoded::Known)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CANARY: &str = "canary-4711-very-private";

    fn credentials() -> Vec<Credential> {
        let secret = || Secret::new(CANARY);
        vec![
            Credential::ApiKey { key: secret(), email: Some("a@b.c".into()) },
            Credential::Token { token: secret(), expires_at: None, email: None },
            Credential::Token { token: secret(), expires_at: Some(7), email: None },
            Credential::Oauth {
                access: secret(),
                refresh: Secret::new(format!("r-{CANARY}")),
                expires_at: 9,
                account_id: Some("acc".into()),
                email: None,
                client_id: Some("client".into()),
                extra: [("projectId".to_owned(), "p".to_owned())].into(),
            },
        ]
    }

    fn entry(credential: &Credential) -> Map<String, Value> {
        let mut entry = Map::new();
        describe(credential, &mut entry);
        entry
    }

    #[test]
    fn every_kind_is_read_as_it_was_written() {
        for credential in credentials() {
            let read = decode(credential.kind(), &entry(&credential), &plain(&credential, None));
            assert_eq!(read, Decoded::Known(credential));
        }
    }

    #[test]
    fn nothing_in_the_clear_and_no_debug_text_holds_a_secret() {
        for credential in credentials() {
            let shown = format!("{credential:?} {:?}", entry(&credential));
            assert!(!shown.contains("canary"), "{shown}");
        }
    }

    #[test]
    fn fields_of_a_newer_release_are_kept() {
        let [key, ..] = &credentials()[..] else { panic!("no credential") };
        let written = plain(key, Some(br#"{"key":"old","device":{"n":1}}"#));
        let fields: Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(fields, serde_json::json!({"key": CANARY, "device": {"n": 1}}));
        let mut entry = Map::from_iter([
            ("label".to_owned(), Value::from("work")),
            ("expires".to_owned(), Value::from(5)),
        ]);
        describe(key, &mut entry);
        assert_eq!(
            Value::Object(entry),
            serde_json::json!({"label": "work", "type": "api_key", "email": "a@b.c"})
        );
    }

    #[test]
    fn what_makes_no_sense_is_said_to_make_none() {
        let empty = Map::new();
        assert_eq!(decode("passkey", &empty, b"{}"), Decoded::UnknownKind);
        for plain in [&b"{}"[..], b"[]", b"\xff", br#"{"key":5}"#] {
            assert_eq!(decode("api_key", &empty, plain), Decoded::Nonsense);
        }
        assert_eq!(decode("oauth", &empty, br#"{"access":"a"}"#), Decoded::Nonsense);
    }

    proptest! {
        #[test]
        fn any_secret_survives_the_way(text in any::<String>(), refresh in any::<String>(), expires_at in any::<i64>()) {
            let credential = Credential::Oauth {
                access: Secret::new(text), refresh: Secret::new(refresh), expires_at,
                account_id: None, email: None, client_id: None, extra: BTreeMap::new(),
            };
            let read = decode("oauth", &entry(&credential), &plain(&credential, None));
            prop_assert_eq!(read, Decoded::Known(credential));
        }
    }
}
