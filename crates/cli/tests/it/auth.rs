//! `auth …`: the contract's words, and credentials that nobody can read out of the home, the screen or the history.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::home::{Home, PROGRAM, tree};
use crate::process::{Call, Done};
use crate::vendor::{Reply, Vendor};

/// A key that must show up nowhere.
fn canary() -> String {
    format!("canary-{}-{}", "key", 4711)
}

fn store_key(home: &Home, provider: &str, more: &[&str]) -> Done {
    let words = [&["auth", "login", provider, "--stdin"], more].concat();
    home.call(&words).stdin(format!("{}\n", canary())).ok()
}

/// Whether any file of the home has this text in it.
fn holds(home: &Home, text: &str) -> bool {
    tree(home.around()).into_iter().filter(|(_, _, folder)| !folder).any(|(path, _, _)| {
        let bytes = fs::read(home.around().join(path)).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

fn seed(home: &Home) -> String {
    let file = home.around().join("auth-profiles.json");
    let profile = |account: &str, expires: i64| {
        json!({
            "id": format!("openai-codex/{account}"), "provider": "openai-codex",
            "createdAt": 1, "updatedAt": 2,
            "credential": {
                "access": canary(), "refresh": canary(), "expires": expires, "accountId": account,
            },
        })
    };
    let root = json!({
        "version": 1, "activeProfileId": null,
        "profiles": {
            "openai-codex/acc": profile("acc", 4_102_444_800_000),
            "openai-codex/old": profile("old", 1_000),
        },
    });
    fs::write(&file, root.to_string()).unwrap();
    file.display().to_string()
}

#[test]
fn an_empty_status_names_the_file_and_makes_nothing() {
    let home = Home::new();
    let file = home.root().join("credentials/profiles.json");
    let expected = format!(
        "No auth profiles configured.\nHint: run \"tidegate auth login openai-codex\"\nProfile file: {}\n",
        file.display()
    );
    assert_eq!(home.call(&["auth", "status"]).ok().stdout, expected);
    let told = home.call(&["auth", "status", "--json"]).json();
    assert_eq!((&told["profiles"], &told["active"], &told["file"]), (&json!([]), &json!(null), &json!(file)));
    assert_eq!(home.call(&["auth", "logout"]).ok().stdout, "No active profile to remove.\n");
    assert_eq!(home.call(&["auth", "logout", "--all"]).ok().stdout, "All auth profiles removed.\n");
    home.call(&["auth", "rotate-key"]).ok();
    assert!(!home.root().exists(), "looking makes no home");
}

#[test]
fn a_login_that_needs_a_person_is_refused_without_one() {
    let home = Home::new();
    let failed = home.call(&["auth", "login", "openai-codex"]).fails("LOGIN_FAILED");
    assert_eq!(failed.message, "ERROR: openai-codex login requires an interactive terminal.");
    let failed = home.call(&["auth", "login", "github-copilot"]).fails("LOGIN_FAILED");
    assert!(failed.stderr.contains("auth.clients.github-copilot.clientId"), "{failed:?}");
    let failed = home.call(&["auth", "login", "anthropic"]).fails("MISSING_VALUE");
    assert!(failed.stderr.contains("--stdin"), "{failed:?}");
    assert!(!home.root().exists(), "nothing is made for a login that failed");
}

#[test]
fn wrong_words_are_told_in_the_words_of_the_contract() {
    let home = Home::new();
    let failed = home.call(&["auth"]).fails("MISSING_VALUE");
    assert_eq!(failed.message, "Missing auth subcommand.");
    let failed = home.call(&["auth", "login", "foo"]).fails("UNSUPPORTED_PROVIDER");
    assert_eq!(failed.message, "Unsupported auth provider: foo");
    let failed = home.call(&["auth", "login"]).fails("MISSING_VALUE");
    assert!(failed.stderr.contains("Usage: tidegate auth login <provider>"), "{failed:?}");
    let failed = home.call(&["auth", "login", "antropic"]).fails("UNSUPPORTED_PROVIDER");
    assert!(failed.stderr.contains("Did you mean anthropic?"), "{failed:?}");
    home.call(&["auth", "login", "offline"]).fails("UNSUPPORTED_PROVIDER");
    for name in ["x", "openai-codex/nobody"] {
        for verb in ["use", "logout"] {
            let failed = home.call(&["auth", verb, name]).fails("NOT_FOUND");
            assert_eq!(failed.message, format!("ERROR: Profile {name} not found"));
        }
    }
    home.call(&["auth", "login", "openai", "--stdin"]).stdin("a-key").ok();
    let failed = home.call(&["ask", "--provider", "openai", "--profile", "x", "hi"]).fails("AUTH_REQUIRED");
    assert_eq!(failed.message, "Profile x not found for openai");
    home.call(&["auth", "bogus"]).fails("UNKNOWN_COMMAND");
    home.call(&["auth", "use"]).fails("MISSING_VALUE");
    home.call(&["auth", "logout", "--all", "a/b"]).fails("INVALID_VALUE");
    home.call(&["auth", "import", "/nowhere/at-all.json"]).fails("NOT_FOUND");
}

#[test]
fn a_key_on_the_command_line_is_refused_and_not_repeated() {
    let home = Home::new();
    let key = canary();
    let long = format!("{key}-{}", "x".repeat(40));
    let inline = format!("--token={key}");
    let named = format!("--api-key={key}");
    for words in [
        ["auth", "login", "anthropic", &key].as_slice(),
        &["auth", "login", &long],
        &["auth", "login", "anthropic", "--token", &key],
        &["auth", "login", "anthropic", &inline],
        &["auth", "login", "anthropic", &named],
    ] {
        let done = home.call(words).run();
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(!done.stderr.contains(&key) && !done.stdout.contains(&key), "{words:?}");
    }
    let failed = home.call(&["auth", "login", "anthropic", &key]).fails("INVALID_VALUE");
    assert!(failed.message.contains("history"), "{failed:?}");
    assert!(!holds(&home, &key));
}

#[test]
fn a_key_from_standard_input_rests_sealed_in_files_of_the_owner() {
    let home = Home::new();
    let done = store_key(&home, "anthropic", &[]);
    assert!(done.stdout.starts_with("Auth profile created: anthropic/default\n"), "{done:?}");
    assert!(done.stdout.contains("tidegate models test anthropic"), "{done:?}");
    assert!(!holds(&home, &canary()), "the key is in the clear somewhere");
    for (path, mode, folder) in tree(&home.root().join("credentials")) {
        assert_eq!(mode, if folder { 0o700 } else { 0o600 }, "{}", path.display());
    }
    let mode = fs::metadata(home.root().join("credentials")).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
    let status = home.call(&["auth", "status"]).ok().stdout;
    assert!(
        status.contains("* anthropic/default provider=anthropic expires=never account=- type=api_key"),
        "{status}"
    );
}

#[test]
fn what_is_no_key_is_not_stored_and_not_repeated() {
    let home = Home::new();
    for text in ["", "  \n", "two words here", "line\nbreak"] {
        let failed = home.call(&["auth", "login", "groq", "--stdin"]).stdin(text).fails("INVALID_VALUE");
        assert!(!failed.stderr.contains("two words"), "{failed:?}");
    }
    let bytes = [0xff, 0xfe, 0x00];
    home.call(&["auth", "login", "groq", "--stdin"]).stdin(bytes).fails("INVALID_VALUE");
    assert_eq!(home.call(&["auth", "status", "--json"]).json()["profiles"], json!([]));
}

#[test]
fn a_key_that_is_there_is_only_replaced_by_somebody_who_says_so() {
    let home = Home::new();
    store_key(&home, "anthropic", &[]);
    let again = home.call(&["auth", "login", "anthropic", "--stdin"]).stdin("other").fails("MISSING_VALUE");
    assert!(again.stderr.contains("--yes") && again.stderr.contains("--name"), "{again:?}");
    store_key(&home, "anthropic", &["--yes"]);
    store_key(&home, "anthropic", &["--name", "work", "--token"]);
    let told = home.call(&["auth", "status", "--json"]).json();
    let found: Vec<_> = told["profiles"].as_array().unwrap().iter().map(|p| (&p["id"], &p["type"])).collect();
    assert_eq!(
        found,
        [(&json!("anthropic/default"), &json!("api_key")), (&json!("anthropic/work"), &json!("token")),]
    );
}

#[test]
fn profiles_of_another_program_are_taken_over_chosen_and_removed() {
    let home = Home::new();
    let file = seed(&home);
    let done = home.call(&["auth", "import", &file]).ok();
    assert!(done.stdout.starts_with("Profile imported: openai-codex/acc\n"), "{done:?}");
    let again = home.call(&["auth", "import", &file, "--json"]).json();
    assert_eq!(again, json!({ "imported": [], "skipped": ["openai-codex/acc", "openai-codex/old"] }));
    fs::remove_file(&file).unwrap();
    assert!(!holds(&home, &canary()));

    let used = home.call(&["auth", "use", "openai-codex/old"]).ok().stdout;
    assert_eq!(used, "Active profile set: openai-codex/old\n");
    let status = home.call(&["auth", "status"]).ok().stdout;
    let lines: Vec<&str> = status.lines().collect();
    assert_eq!(lines[0], "Auth profiles:");
    let lead = "* openai-codex/acc provider=openai-codex expires=";
    assert!(lines[1].starts_with(lead) && lines[1].contains("m account=acc"), "{status}");
    assert!(lines[2].contains("openai-codex/old") && lines[2].contains("expires=expired account=old"));
    assert_eq!(
        lines[3],
        format!("Profile file: {}", home.root().join("credentials/profiles.json").display())
    );
    assert_eq!(lines[4], "Active profile: openai-codex/old");

    assert_eq!(home.call(&["auth", "logout"]).ok().stdout, "Profile removed: openai-codex/old\n");
    let removed = home.call(&["auth", "logout", "openai-codex/acc"]).ok().stdout;
    assert_eq!(removed, "Profile removed: openai-codex/acc\n");
    assert!(home.call(&["auth", "status"]).ok().stdout.starts_with("No auth profiles configured.\n"));
    let mode = fs::metadata(home.root().join("credentials/profiles.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_file_without_profiles_is_refused_without_quoting_it() {
    let home = Home::new();
    let file = home.around().join("other.json");
    for text in
        [canary(), "[]".to_owned(), "{}".to_owned(), format!("{{\"profiles\": {{\"a\": \"{}\"}}}}", canary())]
    {
        fs::write(&file, &text).unwrap();
        let failed = home.call(&["auth", "import", &file.display().to_string()]).fails("INVALID_VALUE");
        assert!(!failed.stderr.contains(&canary()), "{failed:?}");
    }
}

#[test]
fn a_new_key_seals_everything_anew_and_loses_nothing() {
    let home = Home::new();
    store_key(&home, "anthropic", &[]);
    let keys = || fs::read(home.root().join("credentials/key.json")).unwrap();
    let sealed = || fs::read(home.root().join("credentials/profiles.json")).unwrap();
    let (key, seal) = (keys(), sealed());
    let done = home.call(&["auth", "rotate-key", "--json"]).json();
    assert_eq!((&done["rotated"], &done["resealed"], &done["left"]), (&json!(true), &json!(1), &json!([])));
    assert!(keys() != key && sealed() != seal);
    assert_eq!(home.call(&["auth", "status", "--json"]).json()["profiles"][0]["unreadable"], json!(null));
}

#[test]
fn a_credential_whose_key_is_lost_is_marked_with_the_reason_and_can_be_removed_or_replaced() {
    let home = Home::new();
    store_key(&home, "anthropic", &[]);
    store_key(&home, "groq", &[]);
    fs::remove_file(home.root().join("credentials/key.json")).unwrap();
    let status = home.call(&["auth", "status"]).ok().stdout;
    assert_eq!(status.matches("unreadable: ").count(), 2, "{status}");
    home.call(&["auth", "logout", "groq/default"]).ok();
    // Without --yes: what nobody can read any more is nobody's loss.
    store_key(&home, "anthropic", &[]);
    let told = home.call(&["auth", "status", "--json"]).json();
    assert_eq!(told["profiles"].as_array().unwrap().len(), 1);
    assert_eq!(told["profiles"][0]["unreadable"], json!(null));
}

#[test]
fn keys_in_variables_and_in_the_file_are_named_and_never_shown() {
    let home = Home::new();
    home.write_config(&format!(
        "{{ models: {{ providers: {{ mine: {{ api: 'openai-completions', baseUrl: 'http://127.0.0.1:9/v1', apiKey: '{}' }} }} }} }}",
        canary()
    ));
    let done = home.call(&["auth", "status"]).env("OPENAI_API_KEY", canary()).ok();
    assert!(done.stdout.contains("* OPENAI_API_KEY provider=openai\n"), "{done:?}");
    assert!(done.stdout.contains("* models.providers.mine.apiKey provider=mine\n"), "{done:?}");
    assert!(!done.stdout.contains(&canary()) && !done.stderr.contains(&canary()));
    let told = home.call(&["auth", "status", "--json"]).env("OPENAI_API_KEY", canary()).json();
    assert_eq!(told["environment"], json!([{ "variable": "OPENAI_API_KEY", "provider": "openai" }]));
    assert!(!told.to_string().contains(&canary()));
}

#[test]
fn a_damaged_file_is_named_and_left_alone() {
    let home = Home::new();
    store_key(&home, "anthropic", &[]);
    let file = home.root().join("credentials/profiles.json");
    fs::write(&file, "{ broken").unwrap();
    for words in [["auth", "status"].as_slice(), &["auth", "logout", "--all"], &["auth", "rotate-key"]] {
        let failed = home.call(words).fails("CREDENTIALS_UNREADABLE");
        assert!(failed.message.contains("profiles.json"), "{failed:?}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "{ broken");
}

/// Runs the program on a terminal; each text is typed a while after the one before.
fn typed(home: &Home, words: &str, texts: &[&str]) -> Done {
    let typing: Vec<_> = texts.iter().map(|text| format!("sleep 2; printf '%b' '{text}'; ")).collect();
    let script = format!("({}sleep 1) | script -qec '{PROGRAM} {words}' /dev/null", typing.concat());
    Call::new("sh", &["-c", &script])
        .env("TIDEGATE_HOME", home.root())
        .env("HOME", home.around().join("user"))
        .env("TERM", "dumb")
        .env("SHELL", "/bin/sh")
        .run()
}

#[test]
fn a_key_that_is_typed_is_not_seen_and_a_second_one_is_asked_about() {
    let home = Home::new();
    let line = format!("{}\\r", canary());
    let done = typed(&home, "auth login anthropic", &[&line]);
    assert!(done.stdout.contains("Auth profile created: anthropic/default"), "{done:?}");
    assert!(!done.stdout.contains(&canary()), "{done:?}");
    assert!(!holds(&home, &canary()));
    let done = typed(&home, "auth login anthropic", &["n\\r"]);
    assert!(done.stdout.contains("Replace the credential anthropic/default?"), "{done:?}");
    assert!(done.stdout.contains("nothing was stored"), "{done:?}");
}

#[test]
fn the_interrupt_key_leaves_nothing_behind() {
    let home = Home::new();
    let done = typed(&home, "auth login anthropic", &["half\\003"]);
    assert_eq!(done.code, Some(130), "{done:?}");
    assert!(done.stdout.contains("[ABORTED]"), "{done:?}");
    assert_eq!(home.call(&["auth", "status", "--json"]).json()["profiles"], json!([]));
}

#[test]
fn a_login_in_the_browser_can_be_ended_by_pasting_and_a_second_one_is_numbered() {
    let tokens = json!({ "access_token": canary(), "refresh_token": canary(), "expires_in": 3600 });
    let vendor = Vendor::start(Reply::Http(200, "content-type: application/json\r\n", tokens.to_string()));
    let home = Home::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = |client: &str| {
        home.write_config(&format!(
            "{{ auth: {{ clients: {{ 'openai-codex': {{ {client} authorizeUrl: 'https://login.example/authorize', \
             tokenUrl: 'http://127.0.0.1:{}/token', callbackPort: {free} }} }} }} }}",
            vendor.port
        ));
    };
    config("clientId: 'my-client',");
    let done = typed(&home, "auth login openai-codex", &["the-code\\r"]);
    assert!(done.stdout.contains("https://login.example/authorize?"), "{done:?}");
    assert!(
        done.stdout.contains("client_id=my-client") && done.stdout.contains("code_challenge="),
        "{done:?}"
    );
    assert!(done.stdout.contains("Auth profile created: openai-codex/default\r\n"), "{done:?}");
    assert!(done.stdout.contains("Credential expires: 20"), "{done:?}");
    assert!(!done.stdout.contains(&canary()) && !holds(&home, &canary()), "{done:?}");
    assert!(vendor.seen()[0].contains("code=the-code"), "{:?}", vendor.seen());

    // Without one in the configuration the person is asked for it.
    config("");
    let done = typed(&home, "auth login openai-codex", &["other-client\\r", "the-code\\r"]);
    assert!(done.stdout.contains("Tidegate brings no such client id"), "{done:?}");
    assert!(done.stdout.contains("Auth profile created: openai-codex/default#2"), "{done:?}");
    assert!(vendor.seen()[1].contains("client_id=other-client"), "{:?}", vendor.seen());
    let told = home.call(&["auth", "status", "--json"]).json();
    assert_eq!(told["active"], "openai-codex/default#2");
}

#[test]
fn a_login_that_the_vendor_refuses_stores_nothing() {
    let vendor = Vendor::start(Reply::Http(
        400,
        "content-type: application/json\r\n",
        json!({ "error": "invalid_grant" }).to_string(),
    ));
    let home = Home::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    home.write_config(&format!(
        "{{ auth: {{ clients: {{ 'openai-codex': {{ clientId: 'c', tokenUrl: 'http://127.0.0.1:{}/t', callbackPort: {free} }} }} }} }}",
        vendor.port
    ));
    let done = typed(&home, "auth login openai-codex", &["wrong-code\\r"]);
    assert!(done.stdout.contains("[LOGIN_FAILED]") && done.stdout.contains("invalid_grant"), "{done:?}");
    assert_eq!(home.call(&["auth", "status", "--json"]).json()["profiles"], json!([]));
}
