//! Signing in at a server that runs elsewhere: the real program, a browser, and servers that keep the standards.

use serde_json::{Value, json};
use tidegate_testkit::guarded_mcp::{GuardedMcp, Whims};
use tidegate_testkit::login_server::walk;
use tokio::runtime::Runtime;

use crate::gateway::live::{Live, eventually};
use crate::home::Home;
use crate::process::{Done, Running};

struct World {
    runtime: Runtime,
    server: GuardedMcp,
    home: Home,
}

impl World {
    /// A home with a server `notes` whose tools run without a question.
    fn open(oauth: &Value) -> Self {
        let builder = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = builder.expect("a runtime can be made");
        let server = runtime.block_on(GuardedMcp::start());
        let home = Home::new();
        let notes = json!({"url": server.url(), "mode": "allow", "oauth": oauth});
        home.write_config(&json!({"mcp": {"servers": {"notes": notes}}}).to_string());
        Self { runtime, server, home }
    }

    fn begin(&self, more: &[&str]) -> (Running, String) {
        let mut login = self.home.call(&[&["mcp", "login", "notes", "--json"], more].concat()).start();
        let url = login.complaint("http://");
        (login, url)
    }

    fn browse(&self, url: &str) -> String {
        self.runtime.block_on(walk(url))
    }

    /// Signs in as a person with a browser does.
    fn login(&self, more: &[&str]) -> Done {
        let (login, url) = self.begin(more);
        self.browse(&url);
        login.wait()
    }

    fn test(&self) -> Value {
        self.home.call(&["mcp", "test", "notes", "--json"]).run().json()
    }

    fn invoke(&self, tool: &str) -> Value {
        self.home
            .call(&["tools", "invoke", &format!("mcp.notes.{tool}"), "--args", "{}", "--json"])
            .run()
            .json()
    }

    /// No secret is in any of these.
    fn hidden(&self, shown: &[&str]) {
        for secret in self.server.secrets() {
            assert!(shown.iter().all(|text| !text.contains(&secret)), "{secret} shows: {shown:?}");
        }
    }
}

fn said(done: &Done) -> String {
    format!("{}{}", done.stdout, done.stderr)
}

#[test]
fn a_server_that_wants_a_login_gets_one_and_its_tools_can_be_used() {
    let world = World::open(&json!({}));
    let refused = world.test();
    assert_eq!((&refused["state"], &refused["wantsLogin"]), (&json!("failed"), &json!(true)));
    assert_eq!(refused["error"], "it wants a login: tidegate mcp login notes");
    let told = world.home.call(&["mcp", "test", "notes"]).run();
    assert!(said(&told).contains("mcp login notes"), "{told:?}");
    let done = world.login(&[]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let login = done.json();
    assert_eq!((&login["scope"], &login["renewable"]), (&json!("notes.read"), &json!(true)));
    assert_eq!(world.test()["state"], "ready");
    let result = world.invoke("read");
    assert!(result.to_string().contains("done, notes.read"), "{result}");
    let profiles = std::fs::read_to_string(world.home.root().join("credentials/profiles.json")).unwrap();
    world.hidden(&[&said(&done), &said(&told), &profiles, &result.to_string()]);
}

#[test]
fn a_token_that_ends_is_renewed_once_and_the_call_is_made_once() {
    let world = World::open(&json!({}));
    world.server.change(|whims| whims.lasts = 120);
    assert_eq!(world.login(&[]).code, Some(0));
    // What never lasts long is used while it lasts …
    assert!(world.invoke("read").to_string().contains("done"));
    assert_eq!(world.server.grants("refresh_token"), 0);
    world.server.change(|whims| whims.lasts = 0);
    world.server.end_tokens();
    assert!(world.invoke("read").to_string().contains("done"));
    // … and what has ended is renewed before it is used.
    assert!(world.invoke("read").to_string().contains("done"));
    let renewed = world.server.grants("refresh_token");
    assert!(renewed >= 2);
    world.server.change(|whims| whims.lasts = 3600);
    assert!(world.invoke("read").to_string().contains("done"));
    let renewed = world.server.grants("refresh_token");
    // One that was taken back before its time is refused, renewed, and the call goes through.
    world.server.end_tokens();
    let calls = world.server.calls();
    assert!(world.invoke("read").to_string().contains("done"));
    assert_eq!(world.server.grants("refresh_token"), renewed + 1);
    assert_eq!(world.server.calls(), calls + 1);
    // Every refresh token was good once, so each new one was kept.
    assert_eq!(world.server.grants("authorization_code"), 1);
}

#[test]
fn a_login_that_ended_for_good_asks_for_another() {
    let world = World::open(&json!({}));
    assert_eq!(world.login(&[]).code, Some(0));
    world.server.end_logins();
    assert_eq!(world.test()["error"], "it wants a login: tidegate mcp login notes");
    assert_eq!(world.login(&[]).code, Some(0));
    assert_eq!(world.test()["state"], "ready");
    // One that cannot be renewed lasts as long as it lasts.
    world.server.change(|whims| whims.forgetful = true);
    let done = world.login(&[]);
    assert_eq!(done.json()["renewable"], false);
    assert_eq!(world.test()["state"], "ready");
    world.server.end_tokens();
    assert_eq!(world.test()["wantsLogin"], true);
}

#[test]
fn a_call_that_needs_more_than_the_login_allows_says_how_to_get_it() {
    let world = World::open(&json!({}));
    assert_eq!(world.login(&[]).code, Some(0));
    let refused = world.invoke("write").to_string();
    assert!(refused.contains("notes.write is missing"), "{refused}");
    assert!(refused.contains("tidegate mcp login notes --scope 'notes.write'"), "{refused}");
    assert_eq!(world.server.calls(), 0);
    let done = world.login(&["--scope", "notes.write"]);
    assert_eq!(done.json()["scope"], "notes.read notes.write");
    assert!(world.invoke("write").to_string().contains("done"));
    // Whoever asks for more keeps what there is.
    let (_login, url) = world.begin(&["--scope", "notes.more"]);
    assert!(url.contains("notes.write") && url.contains("notes.more"), "{url}");
}

#[test]
fn answers_that_are_not_for_this_login_end_nothing_and_a_no_ends_it() {
    let world = World::open(&json!({}));
    let (mut login, url) = world.begin(&[]);
    for whims in
        [Whims { confuses: true, ..Whims::default() }, Whims { other_issuer: true, ..Whims::default() }]
    {
        world.server.change(|now| *now = whims);
        let page = world.browse(&url);
        assert!(page.starts_with("HTTP/1.1 400"), "{page}");
        assert!(login.is_there());
    }
    world.server.change(|now| *now = Whims { declines: true, ..Whims::default() });
    world.browse(&url);
    let done = login.wait();
    assert_eq!(done.code, Some(1));
    assert!(said(&done).contains("declined") && said(&done).contains("LOGIN_FAILED"), "{done:?}");
    assert_eq!(world.test()["wantsLogin"], true);
}

#[test]
fn a_server_that_pretends_or_cannot_do_it_safely_is_not_signed_in_at() {
    let world = World::open(&json!({}));
    for (whims, why) in [
        (
            Whims { other_resource: Some("https://bank.example/api".to_owned()), ..Whims::default() },
            "https://bank.example/api",
        ),
        (Whims { pkce: vec!["plain".to_owned()], ..Whims::default() }, "PKCE"),
        (Whims { closed: true, ..Whims::default() }, "oauth.clientId"),
    ] {
        world.server.change(|now| *now = whims);
        let done = world.home.call(&["mcp", "login", "notes"]).run();
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(said(&done).contains(why), "{why}: {done:?}");
    }
    assert_eq!(world.server.asked("/authorize").len(), 0);
}

#[test]
fn a_client_that_was_registered_by_hand_is_used() {
    let world = World::open(&json!({"clientId": "by-hand", "scopes": ["notes.write"]}));
    world.server.change(|whims| whims.closed = true);
    world.server.register("by-hand");
    assert_eq!(world.login(&[]).json()["scope"], "notes.write");
    assert!(world.invoke("write").to_string().contains("done"));
    assert_eq!(world.server.asked("/register").len(), 0);
}

#[test]
fn a_gateway_uses_a_login_as_soon_as_it_is_made_and_a_forgotten_one_no_more() {
    let world = World::open(&json!({}));
    let live = Live::start(&world.home);
    assert!(world.invoke("read").to_string().contains("mcp login notes"));
    assert_eq!(world.login(&[]).code, Some(0));
    eventually("the gateway has seen the login", || {
        world.invoke("read").to_string().contains("done").then_some(())
    });
    live.end();
    world.home.call(&["mcp", "logout", "notes"]).ok();
    assert_eq!(world.server.revoked(), 1);
    assert_eq!(world.test()["wantsLogin"], true);
    let again = world.home.call(&["mcp", "logout", "notes"]).run();
    assert!(said(&again).contains("there is no login at notes"), "{again:?}");
}

#[test]
fn a_token_is_for_one_address_and_goes_nowhere_else() {
    let world = World::open(&json!({}));
    assert_eq!(world.login(&[]).code, Some(0));
    let other = world.runtime.block_on(GuardedMcp::start());
    world.home.call(&["config", "set", "mcp.servers.notes.url", &other.url()]).ok();
    assert_eq!(world.test()["wantsLogin"], true);
    let shown = other.asked("/mcp");
    assert!(!shown.is_empty() && shown.iter().all(|asked| !asked.headers.contains_key("authorization")));
}
