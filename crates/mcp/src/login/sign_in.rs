//! Signing a person in at a server: from the server's refusal to a credential.

use std::time::Duration;

use tidegate_net::Client;
use tidegate_oauth::{Callback, Expected, LoginError, LoginUi, Pkce, code, form};
use tidegate_runtime::Clock;
use tidegate_secrets::Credential;

use super::SignInError;
use super::apply::apply;
use super::discover::{Discovered, discover};
use super::token::{Terms, credential, tokens};
use super::trust::Trust;
use crate::client::AddressSpec;

/// How long the person may take.
const PATIENCE: Duration = Duration::from_mins(10);
/// Lets a login be renewed while nobody is there.
const OFFLINE: &str = "offline_access";

/// Signs a person in. `more` is what they want besides what the server asks for.
pub async fn sign_in(
    client: &Client,
    server: &AddressSpec,
    more: &[String],
    ui: &dyn LoginUi,
    clock: &dyn Clock,
) -> Result<Credential, SignInError> {
    let said = &server.oauth;
    let trust = Trust::new(&server.url, said.issuer.as_deref())?;
    let mut found = discover(client, &trust, &server.headers, said).await?;
    found.scopes = scopes(&found, more);
    // A taken port leaves the way of pasting: the browser ends at an address that holds the code all the same.
    let wanted = said.callback_port.unwrap_or(0);
    let callback = Callback::listen(wanted).await.ok();
    let port = callback.as_ref().and_then(Callback::port).unwrap_or(wanted);
    let redirect = Callback::redirect(port);
    let applicant = apply(client, &trust, said, &found, &redirect).await?;
    let Discovered { resource, authority, scopes } = found;
    let terms = Terms {
        server: server.url.clone(),
        resource,
        issuer: authority.issuer.clone(),
        named: said.issuer.clone(),
        token_url: authority.token_endpoint.clone(),
        revoke_url: authority.revocation_endpoint.clone(),
        scope: scopes.join(" "),
        applicant,
    };
    let pkce = Pkce::new()?;
    ui.show_url(&question(&authority.authorization_endpoint, &terms, &pkce, &redirect));
    let expected = Expected {
        state: &pkce.state,
        issuer: Some(&authority.issuer),
        names_issuer: authority.authorization_response_iss_parameter_supported,
    };
    let code = tokio::time::timeout(PATIENCE, code(callback, ui, expected));
    let code = code.await.map_err(|_| LoginError::TimedOut)??;
    let fields = [
        ("grant_type", "authorization_code"),
        ("code", code.expose()),
        ("code_verifier", pkce.verifier.expose()),
        ("redirect_uri", redirect.as_str()),
    ];
    let answer = tokens(client, &terms, &fields).await?;
    Ok(credential(&answer, &terms, None, clock.now_ms())?)
}

/// What the server asks for, what the person wants, and to be renewed where that has a name.
fn scopes(found: &Discovered, more: &[String]) -> Vec<String> {
    let offline = found.authority.scopes_supported.iter().filter(|scope| *scope == OFFLINE);
    let mut scopes: Vec<String> = Vec::new();
    for scope in found.scopes.iter().chain(more).chain(offline) {
        if !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    }
    scopes
}

fn question(endpoint: &str, terms: &Terms, pkce: &Pkce, redirect: &str) -> String {
    let mut fields = vec![
        ("response_type", "code"),
        ("client_id", terms.applicant.id.as_str()),
        ("redirect_uri", redirect),
        ("code_challenge", &pkce.challenge),
        ("code_challenge_method", "S256"),
        ("state", &pkce.state),
        ("resource", &terms.resource),
    ];
    if !terms.scope.is_empty() {
        fields.push(("scope", &terms.scope));
    }
    if terms.scope.split(' ').any(|scope| scope == OFFLINE) {
        // Without it some servers forget the wish.
        fields.push(("prompt", "consent"));
    }
    let mark = if endpoint.contains('?') { '&' } else { '?' };
    format!("{endpoint}{mark}{}", form::encode(&fields))
}
