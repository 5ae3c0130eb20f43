//! Signing in, as far as a client sees it: OAuth with proof of possession and refresh tokens that work once, GitHub's
//! device code, Copilot's token.

use std::collections::{BTreeMap, HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::record::Recorded;
use super::route::Account;

/// What the vendor's sign-in knows.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    /// Codes that were given out, with the challenge they were asked for with.
    codes: HashMap<String, Option<String>>,
    /// Refresh tokens that were used; a second use is a theft.
    spent: HashSet<String>,
    issued: usize,
    /// How often GitHub still says that the person has not confirmed.
    pub(crate) pending: usize,
}

/// An answer of the sign-in.
#[derive(Debug, PartialEq)]
pub(crate) enum Told {
    Json(u16, Value),
    /// The browser is sent there.
    Redirect(String),
}

impl Accounts {
    pub(crate) fn answer(&mut self, what: Account, request: &Recorded, base_url: &str, now_s: i64) -> Told {
        match what {
            Account::Authorize => self.authorize(&request.query),
            Account::Token => self.token(&request.body, now_s),
            Account::GithubDevice => Told::Json(
                200,
                json!({
                    "device_code": "device-0001", "user_code": "TIDE-GATE", "expires_in": 900, "interval": 1,
                    "verification_uri": format!("{base_url}/login/device"),
                }),
            ),
            Account::GithubToken => self.github_token(),
            Account::CopilotToken => self.copilot_token(request, base_url, now_s),
        }
    }

    fn authorize(&mut self, query: &BTreeMap<String, String>) -> Told {
        let Some(target) = query.get("redirect_uri") else {
            return refused("invalid_request", "redirect_uri is missing");
        };
        self.issued += 1;
        let code = format!("code-{:04}", self.issued);
        self.codes.insert(code.clone(), query.get("code_challenge").cloned());
        let state = query.get("state").map_or("", String::as_str);
        let mark = if target.contains('?') { '&' } else { '?' };
        Told::Redirect(format!("{target}{mark}code={code}&state={state}"))
    }

    fn token(&mut self, body: &Value, now_s: i64) -> Told {
        let field = |name: &str| body[name].as_str().unwrap_or_default();
        match field("grant_type") {
            "authorization_code" => {
                let Some(challenge) = self.codes.remove(field("code")) else {
                    return refused("invalid_grant", "the code is unknown or was used");
                };
                let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(field("code_verifier")));
                if challenge.is_some_and(|challenge| challenge != proof) {
                    return refused("invalid_grant", "the code verifier does not fit its challenge");
                }
            }
            "refresh_token" => {
                if field("refresh_token").is_empty() || !self.spent.insert(field("refresh_token").to_owned())
                {
                    return refused("invalid_grant", "the refresh token is unknown or was used");
                }
            }
            _ => return refused("unsupported_grant_type", "say authorization_code or refresh_token"),
        }
        self.grant(now_s)
    }

    fn grant(&mut self, now_s: i64) -> Told {
        self.issued += 1;
        let number = self.issued;
        let claims = json!({
            "sub": "user-0001", "exp": now_s + 3600, "jti": format!("token-{number:04}"), "email": "ada@example.org",
            "https://api.openai.com/auth": {"chatgpt_account_id": "account-0001", "chatgpt_plan_type": "plus"},
        });
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let token = format!("{}.{}.c2ln", encode(&json!({"alg": "none", "typ": "JWT"})), encode(&claims));
        Told::Json(
            200,
            json!({
                "access_token": token, "id_token": token, "refresh_token": format!("refresh-{number:04}"),
                "expires_in": 3600, "token_type": "Bearer", "scope": "all",
            }),
        )
    }

    fn github_token(&mut self) -> Told {
        if self.pending > 0 {
            self.pending -= 1;
            // GitHub says this with a 200.
            return Told::Json(
                200,
                json!({"error": "authorization_pending", "error_description": "not yet confirmed"}),
            );
        }
        Told::Json(
            200,
            json!({"access_token": "github-token-0001", "token_type": "bearer", "scope": "read:user"}),
        )
    }

    fn copilot_token(&mut self, request: &Recorded, base_url: &str, now_s: i64) -> Told {
        if request.header("authorization").is_none() {
            return Told::Json(401, json!({"message": "Bad credentials", "status": "401"}));
        }
        self.issued += 1;
        let expires = now_s + 1500;
        let token =
            format!("tid=played-{:04};exp={expires};proxy-ep=proxy.individual.example.org", self.issued);
        Told::Json(
            200,
            json!({
                "token": token, "expires_at": expires, "refresh_in": 1200, "chat_enabled": true,
                "endpoints": {"api": base_url}, "sku": "free_limited_copilot",
            }),
        )
    }
}

fn refused(error: &str, description: &str) -> Told {
    Told::Json(400, json!({"error": error, "error_description": description}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(pairs: &[(&str, &str)]) -> Value {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::from(*value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    fn code_for(accounts: &mut Accounts, challenge: &str) -> String {
        let query =
            [("redirect_uri", "http://localhost:1/back"), ("state", "s1"), ("code_challenge", challenge)];
        let query = query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let Told::Redirect(target) = accounts.authorize(&query) else { panic!("no redirect") };
        let code = target.strip_prefix("http://localhost:1/back?code=").unwrap();
        code.strip_suffix("&state=s1").unwrap().to_owned()
    }

    #[test]
    fn a_code_is_good_once_and_with_its_verifier_only() {
        let mut accounts = Accounts::default();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest("the verifier"));
        for (verifier, good) in [("another", false), ("the verifier", true)] {
            let code = code_for(&mut accounts, &challenge);
            let body =
                form(&[("grant_type", "authorization_code"), ("code", &code), ("code_verifier", verifier)]);
            let status = |told| matches!(told, Told::Json(200, _));
            assert_eq!(status(accounts.token(&body, 0)), good, "{verifier}");
            assert!(!status(accounts.token(&body, 0)), "the code was good twice");
        }
    }

    #[test]
    fn a_refresh_token_is_good_once() {
        let mut accounts = Accounts::default();
        let body = form(&[("grant_type", "refresh_token"), ("refresh_token", "r0")]);
        let Told::Json(200, first) = accounts.token(&body, 0) else { panic!("refused") };
        assert_eq!(
            accounts.token(&body, 0),
            refused("invalid_grant", "the refresh token is unknown or was used")
        );
        let body = form(&[
            ("grant_type", "refresh_token"),
            ("refresh_token", first["refresh_token"].as_str().unwrap()),
        ]);
        assert!(matches!(accounts.token(&body, 0), Told::Json(200, _)));
    }

    #[test]
    fn github_waits_for_the_person_as_often_as_it_is_told() {
        let mut accounts = Accounts { pending: 1, ..Accounts::default() };
        let Told::Json(200, first) = accounts.github_token() else { panic!("refused") };
        assert_eq!(first["error"], "authorization_pending");
        let Told::Json(200, second) = accounts.github_token() else { panic!("refused") };
        assert_eq!(second["access_token"], "github-token-0001");
    }
}
