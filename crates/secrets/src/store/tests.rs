//! The store as its users see it: what is on the disk, what is lost with a key, and what a kill leaves behind.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::json;

use super::*;
use crate::keys::keychain::fake;
use crate::secret::Secret;

const CANARY: &str = "canary-4711-very-private";

fn open(folder: &Path) -> CredentialStore {
    CredentialStore::open(folder, StoreOptions::default()).unwrap()
}

fn with_keychain(folder: &Path, keys: KeyChoice, script: &str) -> CredentialStore {
    let keychain = Some(fake::keychain(folder.parent().unwrap(), script));
    CredentialStore::open(folder, StoreOptions { keys, keychain, ..StoreOptions::default() }).unwrap()
}

fn home() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("credentials");
    (home, folder)
}

fn id(text: &str) -> ProfileId {
    text.parse().unwrap()
}

fn api_key(n: u32) -> Credential {
    Credential::ApiKey { key: Secret::new(format!("{CANARY}-{n}")), email: None }
}

fn login(access: &str) -> Credential {
    Credential::Oauth {
        access: Secret::new(format!("{CANARY}-{access}")),
        refresh: Secret::new(format!("{CANARY}-r-{access}")),
        expires_at: 5,
        account_id: Some("acc".into()),
        email: Some("a@b.c".into()),
        client_id: Some("client".into()),
        extra: BTreeMap::from([("projectId".to_owned(), format!("{CANARY}-p"))]),
    }
}

/// Every byte of every file in the folder.
fn on_disk(folder: &Path) -> String {
    let files = fs::read_dir(folder).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap());
    files.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect::<Vec<_>>().join("\n")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn json_file(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn no_secret_is_on_the_disk_or_in_anything_shown() {
    let (_home, folder) = home();
    let store = open(&folder);
    store.add("anthropic", None, api_key(1)).unwrap();
    store.add("openai-codex", Some("acc"), login("a")).unwrap();
    store.rotate_key().unwrap();
    let shown = format!("{:?} {:?}", store.list().unwrap(), store.get(&id("openai-codex/acc")).unwrap());
    // The extra fields are no secrets in memory; on the disk they are sealed all the same.
    assert!(!shown.replace(&format!("{CANARY}-p"), "").contains("canary"), "{shown}");
    let disk = on_disk(&folder);
    assert!(disk.contains("a@b.c") && !disk.contains("canary"), "{disk}");
}

#[test]
fn what_was_put_in_comes_out_of_another_process() {
    let (_home, folder) = home();
    let added = open(&folder).add("openai-codex", Some("acc"), login("a")).unwrap();
    assert_eq!(open(&folder).get(&added.id).unwrap(), Some(added));
    assert_eq!(open(&folder).get(&id("openai-codex/nobody")).unwrap(), None);
}

#[test]
fn folder_and_files_are_private_and_wider_permissions_are_mended_with_a_notice() {
    let (_home, folder) = home();
    let store = open(&folder);
    store.add("p", None, api_key(1)).unwrap();
    let files = ["profiles.json", "key.json"].map(|name| folder.join(name));
    assert_eq!(mode(&folder), 0o700);
    for file in &files {
        assert_eq!(mode(file), 0o600);
        fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
    }
    assert_eq!(store.take_notices(), Vec::<String>::new());
    store.list().unwrap();
    let notices = store.take_notices();
    for file in &files {
        assert_eq!(mode(file), 0o600);
        assert!(notices.iter().any(|notice| notice.contains(file.to_str().unwrap())), "{notices:?}");
    }
    assert_eq!(notices.len(), 2);
}

#[test]
fn a_repeated_login_gets_a_number() {
    let (_home, folder) = home();
    let store = open(&folder);
    let ids: Vec<_> =
        (0..3).map(|n| store.add("openai-codex", Some("acc"), api_key(n)).unwrap().id.to_string()).collect();
    assert_eq!(ids, ["openai-codex/acc", "openai-codex/acc#2", "openai-codex/acc#3"]);
}

#[test]
fn the_active_profile_is_chosen_and_forgotten() {
    let (_home, folder) = home();
    let store = open(&folder);
    store.add("p", Some("a"), api_key(1)).unwrap();
    store.add("p", Some("b"), api_key(2)).unwrap();
    store.set_active(&id("p:b")).unwrap();
    assert_eq!(store.active("p").unwrap(), Some(id("p/b")));
    let listed = store.list().unwrap();
    assert_eq!(listed.active, Some(id("p/b")));
    assert_eq!(listed.profiles.iter().map(|profile| profile.active).collect::<Vec<_>>(), [false, true]);
    let error = store.set_active(&id("p/x")).unwrap_err();
    assert_eq!(error.to_string(), "Profile p/x not found");
    store.remove(&id("p/b")).unwrap();
    assert_eq!(store.active("p").unwrap(), None);
    assert_eq!(store.remove(&id("p/b")), Err(SecretsError::NoSuchProfile("p/b".into())));
    assert_eq!((store.remove_all(), store.remove_all()), (Ok(1), Ok(0)));
}

#[test]
fn a_sealed_text_moved_to_another_profile_is_refused() {
    let (_home, folder) = home();
    let store = open(&folder);
    store.add("p", Some("mine"), api_key(1)).unwrap();
    store.add("p", Some("yours"), api_key(2)).unwrap();
    let mut root = json_file(&store.profiles_file());
    root["profiles"]["p/mine"]["sealed"] = root["profiles"]["p/yours"]["sealed"].clone();
    fs::write(store.profiles_file(), root.to_string()).unwrap();
    assert!(matches!(store.get(&id("p/mine")), Err(SecretsError::Unreadable { .. })));
    assert_eq!(store.get(&id("p/yours")).unwrap().unwrap().credential, api_key(2));
}

#[test]
fn a_damaged_file_is_refused_and_kept() {
    let (_home, folder) = home();
    let store = open(&folder);
    store.add("p", None, api_key(1)).unwrap();
    fs::write(store.profiles_file(), "{\"version\":1,").unwrap();
    let Err(error) = store.add("p", None, api_key(2)) else { panic!("written over") };
    assert!(matches!(error, SecretsError::Damaged { .. }), "{error}");
    assert!(CredentialStore::open(&folder, StoreOptions::default()).is_err());
    assert_eq!(fs::read_to_string(store.profiles_file()).unwrap(), "{\"version\":1,");
}

#[test]
fn with_its_key_lost_a_profile_is_listed_replaced_and_removed_and_the_others_stay() {
    let (_home, folder) = home();
    let store = open(&folder);
    for name in ["a", "b", "c"] {
        store.add("p", Some(name), api_key(1)).unwrap();
    }
    let before = json_file(&store.profiles_file());
    fs::remove_file(folder.join("key.json")).unwrap();
    assert!(store.list().unwrap().profiles.iter().all(|profile| profile.unreadable.is_some()));
    let error = store.get(&id("p/a")).unwrap_err();
    assert!(matches!(&error, SecretsError::KeyUnavailable { .. }), "{error}");
    assert!(error.to_string().contains("key.json"), "{error}");

    store.remove(&id("p/b")).unwrap();
    let again = store.add("p", Some("a"), api_key(7)).unwrap();
    assert_eq!(again.id, id("p/a"));
    assert_eq!(store.get(&id("p/a")).unwrap().unwrap().credential, api_key(7));
    assert!(store.take_notices().iter().any(|notice| notice.contains("a new key was made")));
    let after = json_file(&store.profiles_file());
    assert_eq!(after["profiles"]["p/c"], before["profiles"]["p/c"]);
    // A change of keys does not give up what it cannot open.
    let rotation = store.rotate_key().unwrap();
    assert_eq!((rotation.resealed, rotation.left), (1, vec![id("p/c")]));
    assert_eq!(json_file(&store.profiles_file())["profiles"]["p/c"], before["profiles"]["p/c"]);
}

#[test]
fn a_damaged_key_file_leaves_listing_and_removing() {
    let (_home, folder) = home();
    let store = open(&folder);
    store.add("p", Some("a"), api_key(1)).unwrap();
    store.add("p", Some("b"), api_key(1)).unwrap();
    fs::write(folder.join("key.json"), "half").unwrap();
    let store = open(&folder);
    assert_eq!(store.list().unwrap().profiles.len(), 2);
    store.remove(&id("p/a")).unwrap();
    assert!(matches!(store.add("p", Some("c"), api_key(2)), Err(SecretsError::Damaged { .. })));
    assert!(matches!(store.rotate_key(), Err(SecretsError::Damaged { .. })));
    assert_eq!(fs::read_to_string(folder.join("key.json")).unwrap(), "half");
}

#[test]
fn what_a_newer_release_stored_survives_our_changes() {
    let (_home, folder) = home();
    let store = open(&folder);
    store.add("p", Some("a"), api_key(1)).unwrap();
    let mut root = json_file(&store.profiles_file());
    root["policy"] = json!({"x": 1});
    root["profiles"]["p/a"]["label"] = json!("work");
    root["profiles"]["p/new"] = json!({"provider": "p", "type": "passkey", "keyId": "k", "sealed": "s"});
    fs::write(store.profiles_file(), root.to_string()).unwrap();
    store.put(&id("p/a"), api_key(2)).unwrap();
    let rotation = store.rotate_key().unwrap();
    assert_eq!(rotation.left, [id("p/new")]);
    let after = json_file(&store.profiles_file());
    assert_eq!(after["policy"], root["policy"]);
    assert_eq!(after["profiles"]["p/a"]["label"], "work");
    assert_eq!(after["profiles"]["p/new"], root["profiles"]["p/new"]);
    assert_eq!(store.list().unwrap().profiles[1].kind, "passkey");
}

#[test]
fn a_credential_is_replaced_only_if_it_is_the_one_that_was_seen() {
    let (_home, folder) = home();
    let store = open(&folder);
    let seen = store.add("p", None, login("a")).unwrap();
    let other = store.put(&seen.id, login("b")).unwrap();
    assert_eq!(store.replace(&seen, login("c")).unwrap().credential, other.credential);
    assert_eq!(store.replace(&other, login("d")).unwrap().credential, login("d"));
    store.remove(&seen.id).unwrap();
    assert_eq!(store.replace(&other, login("e")), Err(SecretsError::NoSuchProfile(seen.id.to_string())));
    assert_eq!(store.list().unwrap().profiles, []);
}

#[test]
fn profiles_from_elsewhere_are_added_once() {
    let (_home, folder) = home();
    let store = open(&folder);
    let file = r#"{"profiles":{"p:a":{"type":"api_key","key":"k"},"p:b":{"type":"token","token":"t"}}}"#;
    let profiles = crate::import::openclaw(file).unwrap();
    assert_eq!(store.adopt(&profiles).unwrap(), [id("p/a"), id("p/b")]);
    store.put(&id("p/a"), api_key(9)).unwrap();
    assert_eq!(store.adopt(&profiles).unwrap(), []);
    assert_eq!(store.get(&id("p/a")).unwrap().unwrap().credential, api_key(9));
    assert_eq!(store.get(&id("p/b")).unwrap().as_ref(), profiles.get(1));
}

#[test]
fn many_writers_lose_nothing() {
    let (_home, folder) = home();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let folder = &folder;
            scope.spawn(move || {
                for n in 0..5 {
                    open(folder).add("p", Some("same"), api_key(writer * 10 + n)).unwrap();
                }
            });
        }
    });
    let store = open(&folder);
    let listed = store.list().unwrap().profiles;
    assert_eq!(listed.len(), 20);
    assert!(listed.iter().all(|profile| profile.unreadable.is_none()));
}

#[test]
fn a_store_that_another_holds_is_waited_for_and_then_named() {
    let (_home, folder) = home();
    let options = StoreOptions { lock_wait: Duration::from_millis(50), ..StoreOptions::default() };
    let store = CredentialStore::open(&folder, options).unwrap();
    let held = files::lock(&folder.join("profiles.lock"), Share::OneWriter, Duration::ZERO).unwrap();
    assert!(matches!(store.remove_all(), Err(SecretsError::Busy { .. })));
    drop(held);
    assert_eq!(store.remove_all(), Ok(0));
}

#[test]
fn the_right_to_refresh_is_given_once() {
    let (_home, folder) = home();
    let (one, two) = (open(&folder), open(&folder));
    let held = one.try_lock_profile(&id("p/a")).unwrap().unwrap();
    assert!(two.try_lock_profile(&id("p/a")).unwrap().is_none());
    assert!(two.try_lock_profile(&id("p/b")).unwrap().is_some());
    drop(held);
    assert!(two.try_lock_profile(&id("p/a")).unwrap().is_some());
}

#[test]
fn a_key_in_the_keychain_is_not_in_the_folder() {
    let (_home, folder) = home();
    let store = with_keychain(&folder, KeyChoice::Auto, fake::WORKING);
    store.add("p", None, api_key(1)).unwrap();
    let ring = json_file(&folder.join("key.json"));
    let entry = &ring["keys"][ring["current"].as_str().unwrap()];
    assert_eq!((&entry["place"], entry.get("key")), (&json!("keychain"), None));
    let again = with_keychain(&folder, KeyChoice::File, fake::WORKING);
    assert_eq!(again.get(&id("p/default")).unwrap().unwrap().credential, api_key(1));
}

#[test]
fn a_keychain_that_does_not_answer_later_is_named_and_no_key_is_made_in_silence() {
    let (_home, folder) = home();
    with_keychain(&folder, KeyChoice::Keychain, fake::WORKING).add("p", None, api_key(1)).unwrap();
    let before = fs::read(folder.join("key.json")).unwrap();
    let store = with_keychain(&folder, KeyChoice::Auto, fake::HANGING);
    let start = Instant::now();
    let error = store.get(&id("p/default")).unwrap_err();
    assert!(matches!(error, SecretsError::KeyUnavailable { .. }), "{error}");
    assert!(error.to_string().contains("secret-tool") && error.to_string().contains("unlock"), "{error}");
    assert!(matches!(store.add("p", None, api_key(2)), Err(SecretsError::KeyUnavailable { .. })));
    assert!(start.elapsed() < Duration::from_secs(8));
    assert_eq!(fs::read(folder.join("key.json")).unwrap(), before);

    // Asked to keep keys in the file, a new login works, and what the keychain seals comes back with it.
    let store = with_keychain(&folder, KeyChoice::File, fake::LOCKED);
    store.add("p", Some("new"), api_key(3)).unwrap();
    assert!(store.take_notices().iter().any(|notice| notice.contains("cannot be reached")));
    let store = with_keychain(&folder, KeyChoice::File, fake::WORKING);
    assert_eq!(store.get(&id("p/default")).unwrap().unwrap().credential, api_key(1));
    assert_eq!(store.get(&id("p/new")).unwrap().unwrap().credential, api_key(3));
}

#[test]
fn auto_keeps_the_key_in_the_file_when_the_keychain_refuses_and_keychain_says_so() {
    let (_home, folder) = home();
    let error = with_keychain(&folder, KeyChoice::Keychain, fake::LOCKED).add("p", None, api_key(1));
    assert!(matches!(error, Err(SecretsError::KeychainUnusable { .. })));
    with_keychain(&folder, KeyChoice::Auto, fake::LOCKED).add("p", None, api_key(1)).unwrap();
    assert_eq!(open(&folder).get(&id("p/default")).unwrap().unwrap().credential, api_key(1));
}

#[test]
fn changing_the_key_moves_it_to_the_place_that_is_asked_for() {
    let (home, folder) = home();
    with_keychain(&folder, KeyChoice::Keychain, fake::WORKING).add("p", None, api_key(1)).unwrap();
    let kept = || {
        let names = fs::read_dir(home.path()).unwrap().map(|file| file.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("kept-")).count()
    };
    assert_eq!(kept(), 1);
    let store = with_keychain(&folder, KeyChoice::File, fake::WORKING);
    assert_eq!(store.rotate_key().unwrap().place, KeyPlace::File);
    assert_eq!(kept(), 0);
    assert_eq!(open(&folder).get(&id("p/default")).unwrap().unwrap().credential, api_key(1));
}

/// Where the process that is to be killed finds the store.
const VICTIM: &str = "TIDEGATE_TEST_ROTATE_IN";

#[test]
fn killed_anywhere_in_a_change_of_keys_everything_is_still_readable() {
    if let Some(folder) = std::env::var_os(VICTIM) {
        open(Path::new(&folder)).rotate_key().unwrap();
        return;
    }
    let (_home, folder) = home();
    let store = open(&folder);
    store.add("p", Some("a"), api_key(1)).unwrap();
    store.add("p", Some("b"), login("x")).unwrap();
    for (point, keys) in [("before", 1), ("key_added", 2), ("resealed", 2), ("done", 1)] {
        let this = "store::tests::killed_anywhere_in_a_change_of_keys_everything_is_still_readable";
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", this])
            .env(VICTIM, &folder)
            .env("TIDEGATE_FAULT", format!("secrets.rotate.{point}=kill"))
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), None, "{point}: it was not killed: {ended:?}");
        assert_eq!(json_file(&folder.join("key.json"))["keys"].as_object().unwrap().len(), keys, "{point}");
        assert_eq!(store.get(&id("p/a")).unwrap().unwrap().credential, api_key(1), "{point}");
        assert_eq!(store.get(&id("p/b")).unwrap().unwrap().credential, login("x"), "{point}");
        // The next change of keys tidies up.
        assert_eq!(store.rotate_key().unwrap().resealed, 2);
        assert_eq!(json_file(&folder.join("key.json"))["keys"].as_object().unwrap().len(), 1, "{point}");
    }
}
