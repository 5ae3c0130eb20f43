//! Finding out where one signs in for a server, by asking it and those it names.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::json;
use tidegate_net::{Call, Client, Headers, Method, NetError, Origin, Secret, Timeouts};
use tidegate_oauth::{LoginError, ask};
use url::Url;

use super::challenge::Challenge;
use super::metadata::{Authority, Resource, authority_places, is_resource_of, resource_of, resource_places};
use super::trust::Trust;
use super::{OauthSpec, SignInError};

/// For the one question that is put to the server itself.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is known about logins at a server.
#[derive(Debug)]
pub(crate) struct Discovered {
    /// What tokens are asked for.
    pub(crate) resource: String,
    pub(crate) authority: Authority,
    /// What to ask for, as far as anybody said.
    pub(crate) scopes: Vec<String>,
}

/// What the server answers to somebody who is not signed in.
struct Refusal {
    challenge: Challenge,
    /// It does want a login.
    wanted: bool,
}

pub(crate) async fn discover(
    client: &Client,
    trust: &Trust,
    headers: &BTreeMap<String, Secret>,
    said: &OauthSpec,
) -> Result<Discovered, SignInError> {
    let refusal = knock(client, trust, headers).await?;
    let resource = resource(client, trust, &refusal.challenge).await?;
    if let Some(name) = resource.as_ref().and_then(|found| found.name.as_deref())
        && !is_resource_of(name, trust.server())
    {
        return Err(SignInError::OtherResource { said: tidegate_policy::inert::inert_line(name) });
    }
    let named = said.issuer.clone();
    let listed = || resource.as_ref().and_then(|found| found.authorization_servers.first().cloned());
    let authority = match named.or_else(listed) {
        Some(issuer) => described(client, trust, &issuer).await?,
        None => own_authority(client, trust, refusal.wanted).await?,
    };
    trust.judge(&authority.authorization_endpoint)?;
    trust.judge(&authority.token_endpoint)?;
    let supported = resource.as_ref().and_then(|found| found.scopes_supported.clone());
    let asked_for = refusal.challenge.scope.map(|scope| words(&scope)).or(supported);
    let scopes = said.scopes.clone().or(asked_for).unwrap_or_default();
    let name = resource.and_then(|found| found.name);
    Ok(Discovered { resource: name.unwrap_or_else(|| resource_of(trust.server())), authority, scopes })
}

pub(crate) fn words(text: &str) -> Vec<String> {
    text.split_ascii_whitespace().map(str::to_owned).collect()
}

/// Greets the server as one that has no login, and hears what it says.
async fn knock(
    client: &Client,
    trust: &Trust,
    headers: &BTreeMap<String, Secret>,
) -> Result<Refusal, SignInError> {
    let greeting = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "tidegate", "version": env!("CARGO_PKG_VERSION")},
        },
    });
    let mut own = Headers::default();
    for (name, value) in headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("authorization")) {
        own.set_secret(name, value);
    }
    own.set("accept", "application/json, text/event-stream");
    own.set("content-type", "application/json");
    let call = Call {
        origin: Origin::Configured,
        method: Method::Post,
        url: trust.server().to_string(),
        headers: own.clone(),
        body: greeting.to_string().into_bytes(),
        timeouts: Timeouts { idle: PATIENCE },
    };
    let unreachable = |error: NetError| SignInError::Server(error.to_string());
    let reply = client.call(call).await.map_err(unreachable)?;
    let challenge: Vec<&str> =
        reply.headers().filter(|(name, _)| *name == "www-authenticate").map(|(_, value)| value).collect();
    let refusal =
        Refusal { challenge: Challenge::read(&challenge.join(", ")), wanted: reply.status() == 401 };
    // A server that let us in keeps a session that nobody needs.
    if let Some(session) = reply.header("mcp-session-id") {
        own.set("mcp-session-id", session);
        let url = trust.server().to_string();
        let timeouts = Timeouts { idle: PATIENCE };
        let (origin, method, headers) = (Origin::Configured, Method::Delete, own);
        let _ = client.call(Call { origin, method, url, headers, body: Vec::new(), timeouts }).await;
    }
    Ok(refusal)
}

async fn resource(
    client: &Client,
    trust: &Trust,
    challenge: &Challenge,
) -> Result<Option<Resource>, SignInError> {
    let places = match &challenge.resource_metadata {
        Some(place) => vec![place.clone()],
        None => resource_places(trust.server()),
    };
    read_first(client, trust, places).await
}

async fn described(client: &Client, trust: &Trust, issuer: &str) -> Result<Authority, SignInError> {
    let (url, _) = trust.judge(issuer)?;
    let found: Option<Authority> = read_first(client, trust, authority_places(&url)).await?;
    let found = found.ok_or_else(|| SignInError::NoMetadata { issuer: url.to_string() })?;
    found.check(issuer)?;
    Ok(found)
}

/// A server that names nobody may be its own authorization server, as the protocol had it before June 2025.
async fn own_authority(client: &Client, trust: &Trust, wanted: bool) -> Result<Authority, SignInError> {
    let mut origin = trust.server().clone();
    origin.set_path("/");
    origin.set_query(None);
    let found: Option<Authority> = read_first(client, trust, authority_places(&origin)).await?;
    match found {
        Some(found) => {
            // Nobody said what it is called, only where it is.
            let said = Url::parse(&found.issuer).ok().filter(|said| said.origin() == origin.origin());
            found.check(said.as_ref().map_or(origin.as_str(), |_| &found.issuer))?;
            Ok(found)
        }
        None if wanted => Ok(Authority::undescribed(&origin)),
        None => Err(SignInError::NotWanted),
    }
}

/// The first description that is there. Whoever cannot be reached at all is an error: it may be there later.
async fn read_first<T: DeserializeOwned>(
    client: &Client,
    trust: &Trust,
    places: Vec<String>,
) -> Result<Option<T>, SignInError> {
    for place in places {
        let (url, origin) = trust.judge(&place)?;
        let mut headers = Headers::default();
        headers.set("mcp-protocol-version", "2025-11-25");
        match ask(client, origin, Method::Get, url.as_str(), headers, Vec::new()).await {
            Ok(answer) if answer.status == 200 => {
                if let Ok(found) = serde_json::from_value(answer.body) {
                    return Ok(Some(found));
                }
            }
            Ok(_) | Err(LoginError::Unexpected { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}
