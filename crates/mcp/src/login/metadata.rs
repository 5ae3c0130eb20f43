//! Where the descriptions of servers lie (RFC 9728, RFC 8414, OpenID Connect Discovery), and what they say. All of it is
//! pure.

use serde::Deserialize;
use url::Url;

use super::SignInError;

/// What a server of tools says about itself.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Resource {
    #[serde(rename = "resource")]
    pub(crate) name: Option<String>,
    pub(crate) authorization_servers: Vec<String>,
    pub(crate) scopes_supported: Option<Vec<String>>,
}

/// What an authorization server says about itself.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Authority {
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: String,
    pub(crate) token_endpoint: String,
    pub(crate) registration_endpoint: Option<String>,
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) scopes_supported: Vec<String>,
    pub(crate) code_challenge_methods_supported: Vec<String>,
    pub(crate) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    pub(crate) authorization_response_iss_parameter_supported: bool,
    pub(crate) client_id_metadata_document_supported: bool,
}

impl Authority {
    /// One that describes itself nowhere, as servers before June 2025 were allowed to.
    pub(crate) fn undescribed(origin: &Url) -> Self {
        let at = |path: &str| with_path(origin, path);
        Self {
            issuer: origin.origin().ascii_serialization(),
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: Some(at("/register")),
            ..Self::default()
        }
    }

    /// Whether it is the one that was asked, and safe to sign in at.
    pub(crate) fn check(&self, asked: &str) -> Result<(), SignInError> {
        let same = |text: &str| text.trim_end_matches('/') == asked.trim_end_matches('/');
        if !same(&self.issuer) {
            let (asked, said) = (asked.to_owned(), self.issuer.clone());
            return Err(SignInError::OtherIssuer { asked, said });
        }
        if !self.code_challenge_methods_supported.iter().any(|method| method == "S256") {
            return Err(SignInError::NoPkce { issuer: asked.to_owned() });
        }
        Ok(())
    }
}

/// Where a server of tools may describe itself, if it does not say.
pub(crate) fn resource_places(server: &Url) -> Vec<String> {
    const NAME: &str = "/.well-known/oauth-protected-resource";
    let path = server.path().trim_end_matches('/');
    let mut places = Vec::new();
    if !path.is_empty() {
        places.push(with_path(server, &format!("{NAME}{path}")));
    }
    places.push(with_path(server, NAME));
    places
}

/// Where an authorization server may describe itself.
pub(crate) fn authority_places(issuer: &Url) -> Vec<String> {
    const OAUTH: &str = "/.well-known/oauth-authorization-server";
    const OPENID: &str = "/.well-known/openid-configuration";
    let path = issuer.path().trim_end_matches('/');
    if path.is_empty() {
        return vec![with_path(issuer, OAUTH), with_path(issuer, OPENID)];
    }
    vec![
        with_path(issuer, &format!("{OAUTH}{path}")),
        with_path(issuer, &format!("{OPENID}{path}")),
        with_path(issuer, &format!("{path}{OPENID}")),
    ]
}

fn with_path(url: &Url, path: &str) -> String {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// Whether a server at this address may call itself so: the same origin, and the same path or one above it.
pub(crate) fn is_resource_of(said: &str, server: &Url) -> bool {
    let Ok(said) = Url::parse(said) else { return false };
    let path = said.path().trim_end_matches('/');
    let below = server.path().strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    said.origin() == server.origin() && below
}

/// The server's address as tokens name it.
pub(crate) fn resource_of(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    url.set_query(None);
    let text = url.to_string();
    if url.path() == "/" { text.trim_end_matches('/').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn descriptions_are_looked_for_where_the_standards_put_them() {
        assert_eq!(
            resource_places(&url("https://h/a/mcp?x=1")),
            [
                "https://h/.well-known/oauth-protected-resource/a/mcp",
                "https://h/.well-known/oauth-protected-resource"
            ]
        );
        assert_eq!(
            resource_places(&url("https://h:8443/")),
            ["https://h:8443/.well-known/oauth-protected-resource"]
        );
        assert_eq!(
            authority_places(&url("https://as")),
            [
                "https://as/.well-known/oauth-authorization-server",
                "https://as/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            authority_places(&url("https://as/tenant/")),
            [
                "https://as/.well-known/oauth-authorization-server/tenant",
                "https://as/.well-known/openid-configuration/tenant",
                "https://as/tenant/.well-known/openid-configuration"
            ]
        );
    }

    #[test]
    fn a_server_may_call_itself_by_its_own_address_or_one_above_it() {
        let server = url("https://h/a/mcp");
        for (said, fine) in [
            ("https://h/a/mcp", true),
            ("https://h/a/mcp/", true),
            ("https://h/a", true),
            ("https://h", true),
            ("https://h/a/m", false),
            ("https://h/b", false),
            ("https://other/a/mcp", false),
            ("http://h/a/mcp", false),
            ("https://h:444/a/mcp", false),
            ("nonsense", false),
        ] {
            assert_eq!(is_resource_of(said, &server), fine, "{said}");
        }
        assert_eq!(resource_of(&url("https://h/")), "https://h");
        assert_eq!(resource_of(&url("https://h/mcp/?q#f")), "https://h/mcp/");
    }

    #[test]
    fn a_server_that_is_another_or_knows_no_pkce_is_not_signed_in_at() {
        let authority = |issuer: &str, methods: &[&str]| Authority {
            issuer: issuer.to_owned(),
            code_challenge_methods_supported: methods.iter().map(ToString::to_string).collect(),
            ..Authority::default()
        };
        assert!(authority("https://as/", &["plain", "S256"]).check("https://as").is_ok());
        let other = authority("https://evil", &["S256"]).check("https://as").unwrap_err();
        assert_eq!(other.to_string(), "https://as says it is https://evil");
        for methods in [&[][..], &["plain"]] {
            let unsafe_one = authority("https://as", methods).check("https://as").unwrap_err();
            assert!(matches!(unsafe_one, SignInError::NoPkce { .. }), "{unsafe_one}");
        }
    }
}
