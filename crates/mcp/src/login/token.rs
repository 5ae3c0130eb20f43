//! The token endpoint: a code or an older token for new ones, and what is kept of them.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_net::{Client, Headers, Method, Origin, Secret};
use tidegate_oauth::{Answer, LoginError, ask, form};
use tidegate_secrets::{CLIENT_SECRET, Credential};

use super::SignInError;
use super::apply::{Applicant, Proof};
use super::trust::Trust;

/// For tokens that do not say when they end and cannot be renewed: until they are refused.
const FOR_GOOD_MS: i64 = 10 * 365 * 24 * 3_600_000;
const HOUR_MS: i64 = 3_600_000;

/// What a login has to remember, besides its tokens.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// The server's address in the configuration: no other gets the token.
    pub(crate) server: String,
    /// What tokens are asked for.
    pub(crate) resource: String,
    pub(crate) issuer: String,
    /// The authorization server that the operator named, if any.
    pub(crate) named: Option<String>,
    pub(crate) token_url: String,
    pub(crate) revoke_url: Option<String>,
    pub(crate) scope: String,
    pub(crate) applicant: Applicant,
}

impl Terms {
    pub(crate) fn trust(&self) -> Result<Trust, SignInError> {
        Trust::new(&self.server, self.named.as_deref())
    }

    /// As they are sealed with the tokens.
    fn written(&self) -> BTreeMap<String, String> {
        let Applicant { secret, proof, .. } = &self.applicant;
        let mut extra = BTreeMap::new();
        for (key, value) in [
            ("server", Some(self.server.as_str())),
            ("resource", Some(&self.resource)),
            ("issuer", Some(&self.issuer)),
            ("named", self.named.as_deref()),
            ("tokenUrl", Some(&self.token_url)),
            ("revokeUrl", self.revoke_url.as_deref()),
            ("scope", Some(&self.scope)),
            ("proof", Some(proof.name())),
            (CLIENT_SECRET, secret.as_ref().map(Secret::expose)),
        ] {
            extra.extend(value.map(|value| (key.to_owned(), value.to_owned())));
        }
        extra
    }

    /// `None` when it is no login at a server.
    pub(crate) fn of(credential: &Credential) -> Option<Self> {
        let Credential::Oauth { client_id, extra, .. } = credential else { return None };
        let text = |key: &str| extra.get(key).cloned();
        Some(Self {
            server: text("server")?,
            resource: text("resource")?,
            issuer: text("issuer")?,
            named: text("named"),
            token_url: text("tokenUrl")?,
            revoke_url: text("revokeUrl"),
            scope: text("scope").unwrap_or_default(),
            applicant: Applicant {
                id: client_id.clone()?,
                secret: text(CLIENT_SECRET).map(Secret::new),
                proof: Proof::named(&text("proof")?)?,
            },
        })
    }
}

/// Asks for tokens with these fields, which say what for.
pub(crate) async fn tokens(
    client: &Client,
    terms: &Terms,
    fields: &[(&str, &str)],
) -> Result<Answer, SignInError> {
    let mut fields = fields.to_vec();
    fields.push(("resource", &terms.resource));
    send(client, terms, &terms.token_url, fields).await
}

/// Tells the server that a token is not needed any more.
pub(crate) async fn revoke(client: &Client, terms: &Terms, token: &Secret) -> Result<(), SignInError> {
    let Some(url) = &terms.revoke_url else { return Ok(()) };
    match send(client, terms, url, vec![("token", token.expose())]).await {
        // The answer has no body.
        Ok(_) | Err(SignInError::Login(LoginError::Unexpected { .. })) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn send(
    client: &Client,
    terms: &Terms,
    url: &str,
    mut fields: Vec<(&str, &str)>,
) -> Result<Answer, SignInError> {
    let (url, origin) = terms.trust()?.judge(url)?;
    // What goes there is a secret of ours, and this is where it belongs.
    let origin = if origin == Origin::Chosen { Origin::Credential } else { origin };
    let mut headers = Headers::default();
    headers.set("content-type", "application/x-www-form-urlencoded");
    let Applicant { id, secret, proof } = &terms.applicant;
    let secret = secret.as_ref().map(Secret::expose).unwrap_or_default();
    match proof {
        Proof::None => fields.push(("client_id", id)),
        Proof::Post => fields.extend([("client_id", id.as_str()), ("client_secret", secret)]),
        Proof::Basic => {
            let pair = format!("{}:{}", form::escaped(id), form::escaped(secret));
            headers.set_secret("authorization", &Secret::new(format!("Basic {}", STANDARD.encode(pair))));
        }
    }
    let body = form::encode(&fields).into_bytes();
    Ok(ask(client, origin, Method::Post, url.as_str(), headers, body).await?)
}

/// What is kept. A server that gives no new refresh token means the old one to last.
pub(crate) fn credential(
    answer: &Answer,
    terms: &Terms,
    old_refresh: Option<&Secret>,
    now: i64,
) -> Result<Credential, LoginError> {
    let (200..300, Some(access), None) = (answer.status, answer.secret("access_token"), answer.error())
    else {
        return Err(answer.refusal());
    };
    if answer.text("token_type").is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        let reason = "a token that is no bearer token".to_owned();
        return Err(LoginError::Unexpected { status: answer.status, reason });
    }
    let refresh = answer.secret("refresh_token").or_else(|| old_refresh.cloned());
    let refresh = refresh.unwrap_or_else(|| Secret::new(""));
    let seconds = answer.body["expires_in"].as_i64().or_else(|| answer.text("expires_in")?.parse().ok());
    let lasts = match seconds {
        Some(seconds) => seconds.max(0).saturating_mul(1000),
        None if refresh.is_empty() => FOR_GOOD_MS,
        None => HOUR_MS,
    };
    let mut terms = terms.clone();
    if let Some(scope) = answer.text("scope") {
        scope.clone_into(&mut terms.scope);
    }
    Ok(Credential::Oauth {
        access,
        refresh,
        expires_at: now.saturating_add(lasts),
        account_id: None,
        email: None,
        client_id: Some(terms.applicant.id.clone()),
        extra: terms.written(),
    })
}
