//! As whom one signs in: a client that the operator registered, or one that registers itself (RFC 7591).

use serde_json::json;
use tidegate_net::{Client, Headers, Method, Secret};
use tidegate_oauth::{Answer, ask};

use super::discover::Discovered;
use super::metadata::Authority;
use super::trust::Trust;
use super::{OauthSpec, SignInError};

/// How a client proves to the token endpoint that it is the one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proof {
    None,
    Basic,
    Post,
}

impl Proof {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::None, Self::Basic, Self::Post].into_iter().find(|proof| proof.name() == name)
    }

    /// What a client without or with a secret uses here.
    fn fitting(authority: &Authority, has_secret: bool) -> Self {
        let takes = |proof: Self| match &authority.token_endpoint_auth_methods_supported {
            Some(known) => known.iter().any(|name| name == proof.name()),
            // What a server takes that does not say (RFC 8414).
            None => proof == Self::Basic,
        };
        match has_secret {
            false => Self::None,
            true if takes(Self::Basic) || !takes(Self::Post) => Self::Basic,
            true => Self::Post,
        }
    }

    /// What a client that registers itself asks for: no secret where none is needed.
    fn wished(authority: &Authority) -> Self {
        let known = authority.token_endpoint_auth_methods_supported.as_deref().unwrap_or_default();
        let takes = |proof: &Self| known.iter().any(|name| name == proof.name());
        let order = [Self::None, Self::Basic, Self::Post];
        // One that does not say takes a public client from those who ask for one.
        order.into_iter().find(takes).unwrap_or(Self::None)
    }
}

/// As whom one signs in.
#[derive(Debug, Clone)]
pub(crate) struct Applicant {
    pub(crate) id: String,
    pub(crate) secret: Option<Secret>,
    pub(crate) proof: Proof,
}

pub(crate) async fn apply(
    client: &Client,
    trust: &Trust,
    said: &OauthSpec,
    found: &Discovered,
    redirect: &str,
) -> Result<Applicant, SignInError> {
    let authority = &found.authority;
    let usable = |id: &&String| {
        // A document is no name to those who do not read it.
        !id.starts_with("https://")
            || authority.client_id_metadata_document_supported
            || authority.registration_endpoint.is_none()
    };
    if let Some(id) = said.client_id.as_ref().filter(usable) {
        let secret = said.client_secret.clone();
        let proof = Proof::fitting(authority, secret.is_some());
        return Ok(Applicant { id: id.clone(), secret, proof });
    }
    let Some(place) = &authority.registration_endpoint else {
        return Err(SignInError::NoRegistration { issuer: authority.issuer.clone() });
    };
    let (url, origin) = trust.judge(place)?;
    let wished = Proof::wished(authority);
    let mut wish = json!({
        "client_name": "Tidegate",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": "native",
        "token_endpoint_auth_method": wished.name(),
    });
    if !found.scopes.is_empty() {
        wish["scope"] = found.scopes.join(" ").into();
    }
    let mut headers = Headers::default();
    headers.set("content-type", "application/json");
    let body = wish.to_string().into_bytes();
    let answer = ask(client, origin, Method::Post, url.as_str(), headers, body).await;
    registered(&answer.map_err(SignInError::Registration)?, authority)
}

fn registered(answer: &Answer, authority: &Authority) -> Result<Applicant, SignInError> {
    let (200 | 201, Some(id)) = (answer.status, answer.text("client_id")) else {
        return Err(SignInError::Registration(answer.refusal()));
    };
    let secret = answer.secret("client_secret");
    let told = answer.text("token_endpoint_auth_method").and_then(Proof::named);
    let proof = match (told, secret.is_some()) {
        (Some(proof), true) => proof,
        (_, has_secret) => Proof::fitting(authority, has_secret),
    };
    Ok(Applicant { id: id.to_owned(), secret, proof })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_as_the_server_wants_it_and_asked_for_only_where_it_must_be() {
        let authority = |known: Option<&[&str]>| Authority {
            token_endpoint_auth_methods_supported: known
                .map(|known| known.iter().map(ToString::to_string).collect()),
            ..Authority::default()
        };
        for (known, wished, with_secret) in [
            (None, Proof::None, Proof::Basic),
            (Some(&["none"][..]), Proof::None, Proof::Basic),
            (Some(&["client_secret_post"]), Proof::Post, Proof::Post),
            (Some(&["client_secret_post", "client_secret_basic"]), Proof::Basic, Proof::Basic),
            (Some(&["private_key_jwt"]), Proof::None, Proof::Basic),
        ] {
            let authority = authority(known);
            assert_eq!(Proof::wished(&authority), wished, "{known:?}");
            assert_eq!(Proof::fitting(&authority, true), with_secret, "{known:?}");
            assert_eq!(Proof::fitting(&authority, false), Proof::None, "{known:?}");
        }
    }
}
