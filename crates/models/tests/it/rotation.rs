//! Which credential is tried first, and which one next.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_models::{CannotSpeak, CredentialKind, FailureKind, Providers as _};
use tidegate_secrets::{Credential, Secret};
use tidegate_testkit::model_server::{Kind, Turn};

use crate::house::{House, question};

const MODEL: &str = "anthropic/claude-sonnet-4-5";

/// The keys that were sent, in order.
fn keys(house: &House) -> Vec<String> {
    let key = |request: &tidegate_testkit::model_server::Recorded| {
        let bearer =
            request.header("authorization").map(|value| value.trim_start_matches("Bearer ").to_owned());
        request.header("x-api-key").map(str::to_owned).or(bearer).unwrap_or_default()
    };
    house.asked().iter().map(key).collect()
}

/// Two keys, a token, one of the environment and one of the configuration.
async fn five(change: impl FnOnce(&mut Value)) -> House {
    let house = House::with(change).await;
    house.store_key("anthropic/one", "key-one");
    house.store_key("anthropic/two", "key-two");
    let token = Credential::Token { token: Secret::new("token-three"), expires_at: None, email: None };
    house.store("anthropic/three", token);
    house.set("ANTHROPIC_API_KEY", "key-of-the-environment");
    house
}

async fn refuse_all(house: &House) -> Vec<String> {
    house.server.always(Turn::refuse(Kind::Auth));
    let heard = house.ask(&[MODEL], question("When?")).await;
    assert_eq!(heard.failure().kind, FailureKind::Auth);
    keys(house)
}

#[tokio::test]
async fn without_a_wish_the_kind_decides_and_everybody_gets_a_turn() {
    let house = five(|_| {}).await;
    // Nobody has chosen one last.
    let tried = refuse_all(&house).await;
    assert_eq!(tried.len(), 5, "{tried:?}");
    let place = |key: &str| tried.iter().position(|tried| tried == key).unwrap();
    assert!(place("token-three") < place("key-of-the-environment"));
    assert!(place("key-one") < place("key-of-the-environment"));
    assert!(place("key-of-the-environment") < place("key-of-anthropic"), "the configuration's comes last");
}

#[tokio::test]
async fn the_one_that_was_chosen_last_comes_first() {
    for (chosen, key) in
        [("anthropic/one", "key-one"), ("anthropic/two", "key-two"), ("anthropic/three", "token-three")]
    {
        let house = five(|_| {}).await;
        house.activate(chosen);
        assert_eq!(refuse_all(&house).await[0], key);
    }
}

#[tokio::test]
async fn a_configured_order_holds_and_leaves_the_others_out() {
    let order = json!({"anthropic": ["anthropic/config", "anthropic:two", "anthropic/gone"]});
    let house = five(|config| config["auth"]["order"] = order).await;
    house.activate("anthropic/one");
    assert_eq!(refuse_all(&house).await, ["key-of-anthropic", "key-two"]);
}

#[tokio::test]
async fn an_agents_own_order_counts_more_than_everybodys() {
    let house = five(|config| {
        config["auth"]["order"] = json!({"anthropic": ["anthropic/config"]});
        config["agents"] = json!({"list": [{"id": "main", "auth": {"order": {"anthropic": ["anthropic/two", "anthropic/env"]}}}]});
    })
    .await;
    assert_eq!(refuse_all(&house).await, ["key-two", "key-of-the-environment"]);
}

#[tokio::test]
async fn a_named_credential_is_used_and_no_other() {
    let house = five(|_| {}).await;
    house.server.always(Turn::refuse(Kind::Auth));
    let mut spec = House::spec(&[MODEL]);
    spec.profile = Some("anthropic:two".into());
    let heard = house.ask_as(&spec, question("When?")).await;
    assert_eq!((heard.failure().kind, keys(&house)), (FailureKind::Auth, vec!["key-two".to_owned()]));
    // Whoever insists gets it although it is cooling down now.
    house.server.always(Turn::say("Noon."));
    assert_eq!(house.ask_as(&spec, question("When?")).await.text(), "Noon.");
    assert_eq!(keys(&house), ["key-two", "key-two"]);
    spec.profile = Some("anthropic/gone".into());
    let expected =
        CannotSpeak::NoSuchProfile { provider: "anthropic".into(), profile: "anthropic/gone".into() };
    assert_eq!(house.registry.ready(&spec).await, Err(expected));
}

#[tokio::test]
async fn a_refused_credential_gives_way_and_the_answer_says_whose_it_is() {
    let house =
        five(|config| config["auth"]["order"] = json!({"anthropic": ["anthropic/one", "anthropic/two"]}))
            .await;
    house.server.push(Turn::refuse(Kind::Auth));
    let heard = house.ask(&[MODEL], question("When?")).await;
    assert_eq!(heard.text(), "You said: When?");
    let switched: Vec<_> =
        heard.switched.iter().map(|(_, profile, failure)| (profile.as_deref(), failure.kind)).collect();
    assert_eq!(switched, [(Some("anthropic/one"), FailureKind::Auth)]);
    assert_eq!(heard.origin.unwrap().profile_id.as_deref(), Some("anthropic/two"));
    house.ask(&[MODEL], question("And now?")).await;
    assert_eq!(keys(&house), ["key-one", "key-two", "key-two"], "the refused one rests");
}

#[tokio::test]
async fn equals_take_turns_while_the_chosen_one_rests() {
    let house =
        House::with(|config| config["models"]["providers"]["anthropic"]["apiKey"] = Value::Null).await;
    for name in ["one", "two", "three"] {
        house.store_key(&format!("anthropic/{name}"), &format!("key-{name}"));
    }
    house.activate("anthropic/one");
    house.server.push(Turn::refuse(Kind::Billing));
    for _ in 0..4 {
        house.clock.pass(std::time::Duration::from_mins(2));
        assert!(house.ask(&[MODEL], question("When?")).await.end.is_ok());
    }
    let keys = keys(&house);
    assert_eq!(keys[0], "key-one");
    assert_eq!(
        BTreeSet::from([keys[1].as_str(), keys[2].as_str()]),
        BTreeSet::from(["key-two", "key-three"])
    );
    assert_eq!((&keys[1], &keys[2]), (&keys[3], &keys[4]), "{keys:?}");
}

#[tokio::test]
async fn one_models_limit_leaves_the_credential_to_the_others() {
    let house = House::new().await;
    house.server.push(Turn::refuse_for(Kind::RateLimit, 600));
    house.ask(&[MODEL], question("When?")).await;
    let limited = house.ask(&[MODEL], question("When?")).await;
    assert_eq!(limited.failure().kind, FailureKind::RateLimit);
    assert_eq!(house.asked().len(), 1, "it was not asked again");
    let other = house.ask(&["anthropic/claude-haiku-4-5"], question("When?")).await;
    assert_eq!(other.text(), "You said: When?");
}

#[tokio::test]
async fn an_empty_purse_is_empty_for_every_model() {
    let house = House::new().await;
    house.server.push(Turn::refuse(Kind::Billing));
    house.ask(&[MODEL], question("When?")).await;
    let other = house.ask(&["anthropic/claude-haiku-4-5"], question("When?")).await;
    assert_eq!((other.failure().kind, house.asked().len()), (FailureKind::Billing, 1));
}

#[tokio::test]
async fn a_token_that_has_run_out_is_not_tried() {
    let house = House::new().await;
    let now = tidegate_runtime::Clock::now_ms(house.clock.as_ref());
    let token = |expires_at| Credential::Token { token: Secret::new("token-old"), expires_at, email: None };
    house.store("anthropic/old", token(Some(now + 1000)));
    let kinds = |house: &House| -> Vec<CredentialKind> {
        house.registry.candidates("anthropic").unwrap().iter().map(|candidate| candidate.kind).collect()
    };
    assert_eq!(kinds(&house), [CredentialKind::Token, CredentialKind::Configured]);
    house.clock.pass(std::time::Duration::from_secs(1));
    assert_eq!(kinds(&house), [CredentialKind::Configured]);
}

#[tokio::test]
async fn a_key_goes_where_the_vendor_looks_for_it_and_a_persons_token_elsewhere() {
    let house =
        House::with(|config| config["models"]["providers"]["anthropic"]["apiKey"] = Value::Null).await;
    house.set("ANTHROPIC_OAUTH_TOKEN", "a-persons-token");
    house.ask(&[MODEL], question("When?")).await;
    let asked = house.server.last_request();
    assert_eq!(asked.header("authorization"), Some("Bearer a-persons-token"));
    assert_eq!(asked.header("x-api-key"), None);
    assert!(asked.header("anthropic-beta").unwrap().contains("oauth-2025-04-20"));
}

#[tokio::test]
async fn amazons_keys_sign_and_are_not_sent() {
    let house = House::with(|config| {
        config["models"]["providers"]["amazon-bedrock"]["apiKey"] = Value::Null;
        config["models"]["providers"]["amazon-bedrock"]["region"] = "eu-west-3".into();
    })
    .await;
    let secret = ["a", "secret", "that", "signs"].join("-");
    house.set("AWS_ACCESS_KEY_ID", "an-access-key");
    house.set("AWS_SECRET_ACCESS_KEY", &secret);
    let model = format!("amazon-bedrock/{}", crate::faces::BEDROCK.model);
    let heard = house.ask(&[&model], question("When?")).await;
    assert_eq!(heard.origin.unwrap().profile_id.as_deref(), Some("amazon-bedrock/aws"));
    let asked = house.server.last_request();
    let signed = asked.header("authorization").unwrap();
    assert!(signed.starts_with("AWS4-HMAC-SHA256 Credential=an-access-key/"), "{signed}");
    assert!(signed.contains("/eu-west-3/bedrock/aws4_request"), "{signed}");
    assert!(!format!("{asked:?}").contains(&secret));
}
