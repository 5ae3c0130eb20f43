//! Many callers, two processes' worth of stores, one refresh.

use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::future::join_all;
use serde_json::json;
use tidegate_secrets::StoreOptions;

use super::*;
use tidegate_net::Client;
use tidegate_testkit::login_server::{Server, closed_port};

const NOW: i64 = 1_800_000_000_000;
const HOUR: i64 = 3_600_000;

struct Hands(AtomicI64);

impl Clock for Hands {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

fn login(access: &str, expires_at: i64) -> Credential {
    Credential::Oauth {
        access: Secret::new(access),
        refresh: Secret::new("ref-0"),
        expires_at,
        account_id: Some("acc".into()),
        email: None,
        client_id: Some("client-1".into()),
        extra: [].into(),
    }
}

fn access(profile: &Profile) -> &str {
    match &profile.credential {
        Credential::Oauth { access, .. } => access.expose(),
        other => panic!("{other:?}"),
    }
}

const PROVIDER: &str = "vendor";

/// Knows one provider.
struct Vendor {
    token_url: String,
}

#[async_trait]
impl Renew for Vendor {
    async fn renew(&self, profile: &Profile) -> Option<Result<Credential, LoginError>> {
        let Credential::Oauth { refresh, .. } = &profile.credential else { return None };
        if profile.provider != PROVIDER {
            return None;
        }
        let form = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose())];
        let answer = match crate::post_form(&Client::default(), &self.token_url, &form).await {
            Ok(answer) => answer,
            Err(error) => return Some(Err(error)),
        };
        let Some(access) = answer.secret("access_token") else { return Some(Err(answer.refusal())) };
        let next = answer.secret("refresh_token").unwrap_or(refresh.clone());
        let mut renewed = login(access.expose(), NOW + HOUR);
        if let Credential::Oauth { refresh, .. } = &mut renewed {
            *refresh = next;
        }
        Some(Ok(renewed))
    }
}

struct World {
    home: tempfile::TempDir,
    token_url: String,
}

impl World {
    fn new(token_url: String) -> Self {
        Self { home: tempfile::tempdir().unwrap(), token_url }
    }

    fn store(&self) -> Arc<CredentialStore> {
        let folder = self.home.path().join("credentials");
        // Stored long ago, so that nothing here is short-lived.
        let options = StoreOptions { clock: Arc::new(Hands(AtomicI64::new(0))), ..StoreOptions::default() };
        Arc::new(CredentialStore::open(&folder, options).unwrap())
    }

    /// As a process of its own would have it.
    fn refresher(&self) -> Refresher {
        let vendor = Vendor { token_url: self.token_url.clone() };
        Refresher::new(self.store(), Box::new(vendor), Arc::new(Hands(AtomicI64::new(NOW))))
    }

    fn put(&self, credential: Credential) -> ProfileId {
        self.store().add(PROVIDER, Some("acc"), credential).unwrap().id
    }
}

/// Gives `new-1`, `new-2`, …, and accepts each refresh token once, as the real one does.
async fn vendor() -> Server {
    let spent = AtomicI64::new(0);
    Server::start(move |request| {
        let expected = spent.load(Ordering::SeqCst);
        if request.field("refresh_token") != Some(format!("ref-{expected}")) {
            return (401, json!({"error": {"code": "refresh_token_reused"}}).to_string());
        }
        std::thread::sleep(Duration::from_millis(30));
        let n = spent.fetch_add(1, Ordering::SeqCst) + 1;
        let body = json!({
            "access_token": format!("new-{n}"), "refresh_token": format!("ref-{n}"), "expires_in": 3600,
        });
        (200, body.to_string())
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_callers_in_two_processes_cause_one_refresh() {
    let server = vendor().await;
    let world = World::new(server.url("/token"));
    let id = world.put(login("old", NOW - 1));
    let processes = [world.refresher(), world.refresher()];
    let callers = (0..20).map(|n| {
        let (refresher, id) = (processes[n % 2].clone(), id.clone());
        async move { refresher.fresh(&id, None).await }
    });
    for profile in join_all(callers).await {
        assert_eq!(access(&profile.unwrap()), "new-1");
    }
    assert_eq!(server.count("/token"), 1);
    assert_eq!(access(&world.store().get(&id).unwrap().unwrap()), "new-1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_token_that_all_saw_refused_is_refreshed_once() {
    let server = vendor().await;
    let world = World::new(server.url("/token"));
    let id = world.put(login("old", NOW + HOUR));
    let processes = [world.refresher(), world.refresher()];
    let old = Secret::new("old");
    let callers = (0..20).map(|n| {
        let (refresher, id, old) = (processes[n % 2].clone(), id.clone(), old.clone());
        async move { refresher.fresh(&id, Some(&old)).await }
    });
    for profile in join_all(callers).await {
        assert_eq!(access(&profile.unwrap()), "new-1");
    }
    assert_eq!(server.count("/token"), 1);
    // The new one refused as well is another matter.
    let profile = processes[0].fresh(&id, Some(&Secret::new("new-1"))).await.unwrap();
    assert_eq!((access(&profile), server.count("/token")), ("new-2", 2));
}

#[tokio::test]
async fn what_lasts_longer_is_left_alone() {
    let server = vendor().await;
    let world = World::new(server.url("/token"));
    let id = world.put(login("old", NOW + EARLY_MS + 1));
    let refresher = world.refresher();
    assert_eq!(access(&refresher.fresh(&id, None).await.unwrap()), "old");
    assert_eq!(access(&refresher.fresh(&id, Some(&Secret::new("older"))).await.unwrap()), "old");
    let key = Credential::ApiKey { key: Secret::new("k"), email: None };
    let key = world.store().add("p", None, key).unwrap();
    assert_eq!(refresher.fresh(&key.id, Some(&Secret::new("k"))).await.unwrap(), key);
    assert_eq!(server.count("/token"), 0);
    world.store().put(&id, login("old", NOW + EARLY_MS)).unwrap();
    assert_eq!(access(&refresher.fresh(&id, None).await.unwrap()), "new-1");
}

#[tokio::test]
async fn a_login_that_never_lasts_long_is_refreshed_once_a_life() {
    let server = vendor().await;
    let world = World::new(server.url("/token"));
    let hands = Arc::new(Hands(AtomicI64::new(NOW)));
    let options = StoreOptions { clock: Arc::clone(&hands) as Arc<dyn Clock>, ..StoreOptions::default() };
    let store = Arc::new(CredentialStore::open(&world.home.path().join("credentials"), options).unwrap());
    let id = store.add(PROVIDER, Some("acc"), login("short", NOW + 120_000)).unwrap().id;
    let vendor = Vendor { token_url: world.token_url.clone() };
    let refresher = Refresher::new(store, Box::new(vendor), Arc::clone(&hands) as Arc<dyn Clock>);
    for second in [0, 30, 60, 95] {
        hands.0.store(NOW + second * 1000, Ordering::SeqCst);
        assert_eq!(access(&refresher.fresh(&id, None).await.unwrap()), "short", "{second}");
    }
    assert_eq!(server.count("/token"), 0);
    for second in [96, 97, 120] {
        hands.0.store(NOW + second * 1000, Ordering::SeqCst);
        assert_eq!(access(&refresher.fresh(&id, None).await.unwrap()), "new-1", "{second}");
    }
    assert_eq!(server.count("/token"), 1);
}

#[tokio::test]
async fn a_refused_refresh_keeps_the_credential_and_asks_for_a_login() {
    let server = Server::start(|_| (400, json!({"error": "invalid_grant"}).to_string())).await;
    let world = World::new(server.url("/token"));
    let id = world.put(login("old", NOW + 1));
    let error = world.refresher().fresh(&id, None).await.unwrap_err();
    assert!(matches!(error, RefreshError::LoginAgain { .. }), "{error}");
    assert!(error.to_string().ends_with("log in again"), "{error}");
    assert_eq!(world.store().get(&id).unwrap().unwrap().credential, login("old", NOW + 1));
}

#[tokio::test]
async fn a_network_that_is_down_does_not_end_a_login_that_lasts() {
    let world = World::new(format!("http://127.0.0.1:{}/token", closed_port().await));
    let id = world.put(login("old", NOW + 1000));
    let refresher = world.refresher();
    assert_eq!(access(&refresher.fresh(&id, None).await.unwrap()), "old");
    let refused = refresher.fresh(&id, Some(&Secret::new("old"))).await.unwrap_err();
    assert!(matches!(refused, RefreshError::NotNow { .. }), "{refused}");
    world.store().put(&id, login("old", NOW)).unwrap();
    let ended = refresher.fresh(&id, None).await.unwrap_err();
    assert!(matches!(ended, RefreshError::NotNow { .. }), "{ended}");
    assert_eq!(world.store().get(&id).unwrap().unwrap().credential, login("old", NOW));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_on_their_way_are_saved_also_when_the_caller_gave_up() {
    let server = vendor().await;
    let world = World::new(server.url("/token"));
    let id = world.put(login("old", NOW));
    let refresher = world.refresher();
    let hasty = async {
        while server.count("/token") == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        _ = refresher.fresh(&id, None) => panic!("the answer takes longer than that"),
        () = hasty => {}
    }
    // The next one waits for its turn and finds the work done.
    assert_eq!(access(&refresher.fresh(&id, None).await.unwrap()), "new-1");
    assert_eq!(server.count("/token"), 1);
}

#[tokio::test]
async fn a_login_that_was_removed_meanwhile_stays_removed() {
    let world = World::new(String::new());
    let id = world.put(login("old", NOW));
    let folder = world.store();
    let (gone, at) = (Arc::clone(&folder), id.clone());
    let server = Server::start(move |_| {
        gone.remove(&at).unwrap();
        (200, json!({"access_token": "new", "expires_in": 3600}).to_string())
    })
    .await;
    let world = World { token_url: server.url("/token"), ..world };
    let error = world.refresher().fresh(&id, None).await.unwrap_err();
    assert_eq!(error, RefreshError::Store(SecretsError::NoSuchProfile(id.to_string())));
    assert_eq!(folder.list().unwrap().profiles, []);
}

#[tokio::test]
async fn a_provider_that_nobody_knows_how_to_ask_is_named() {
    let world = World::new(String::new());
    let profile = world.store().add("elsewhere", None, login("old", NOW)).unwrap();
    let error = world.refresher().fresh(&profile.id, None).await.unwrap_err();
    assert_eq!(error, RefreshError::Unsupported { provider: "elsewhere".into() });
}
