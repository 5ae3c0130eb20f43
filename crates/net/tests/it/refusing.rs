//! Addresses that somebody outside chose.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_net::{
    Address, AddressClass as Class, Call, Client, Guard, Headers, Method, NetError, Origin, Resolver,
    Timeouts, class_of,
};
use tidegate_testkit::web_server::{Page, WebServer};

/// Answers the look-ups in turn, the last one for ever.
pub(crate) struct Answers {
    lists: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Answers {
    pub(crate) fn of(lists: &[&[&str]]) -> Arc<Self> {
        let parsed = |list: &&[&str]| list.iter().map(|ip| ip.parse().unwrap()).collect();
        Arc::new(Self { lists: lists.iter().map(parsed).collect(), asked: AtomicUsize::new(0) })
    }

    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

#[async_trait::async_trait]
impl Resolver for Answers {
    async fn resolve(&self, _name: &str) -> std::io::Result<Vec<IpAddr>> {
        let at = self.asked.fetch_add(1, Ordering::SeqCst).min(self.lists.len() - 1);
        Ok(self.lists[at].clone())
    }
}

pub(crate) fn get(url: &str) -> Call {
    Call {
        origin: Origin::Chosen,
        method: Method::Get,
        url: url.to_owned(),
        headers: Headers::default(),
        body: Vec::new(),
        timeouts: Timeouts { idle: Duration::from_secs(5) },
    }
}

async fn refusal(client: &Client, url: &str) -> NetError {
    match client.call(get(url)).await {
        Ok(reply) => panic!("{url} was called and answered {}", reply.status()),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_credential_may_go_to_its_own_place_and_that_place_is_judged_like_others() {
    let call = |origin| Call {
        origin,
        method: Method::Post,
        body: b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P".to_vec(),
        ..get("http://127.0.0.1:1/token")
    };
    let error = |outcome: Result<_, NetError>| outcome.map(|_| ()).unwrap_err();
    let open = Client::default().guarded_by(Guard::allowing(["127.0.0.1:1"]).unwrap());
    assert!(matches!(error(open.call(call(Origin::Chosen)).await), NetError::Leak { .. }));
    assert!(matches!(error(open.call(call(Origin::Credential)).await), NetError::Unreachable { .. }));
    let shut = Client::default();
    assert!(matches!(error(shut.call(call(Origin::Credential)).await), NetError::Forbidden { .. }));
}

#[tokio::test]
async fn every_spelling_of_a_place_that_is_not_public_is_refused() {
    // Whatever is asked resolves to a public address: what is refused here is refused by its spelling.
    let guard = Guard::default().resolving_with(Answers::of(&[&["93.184.215.14"]]));
    let client = Client::new(Duration::from_millis(1)).guarded_by(guard);
    for (url, class) in [
        ("http://127.0.0.1/", Class::Loopback),
        ("http://127.1/", Class::Loopback),
        ("http://127.0.1/", Class::Loopback),
        ("http://2130706433/", Class::Loopback),
        ("http://0x7f000001/", Class::Loopback),
        ("http://0x7f.0.0.1/", Class::Loopback),
        ("http://0177.0.0.1/", Class::Loopback),
        ("http://017700000001/", Class::Loopback),
        ("http://0x7f.1/", Class::Loopback),
        ("http://0X7F.0x0.0x0.0x1/", Class::Loopback),
        ("http://127.0.0.1./", Class::Loopback),
        ("http://127.0.0.1:8080/", Class::Loopback),
        ("https://127.0.0.1/", Class::Loopback),
        ("http://１２７.０.０.１/", Class::Loopback),
        ("http://127。0。0。1/", Class::Loopback),
        ("http://%31%32%37.0.0.1/", Class::Loopback),
        ("http://127.255.255.254/", Class::Loopback),
        ("http://localhost/", Class::Loopback),
        ("http://LOCALHOST/", Class::Loopback),
        ("http://localhost./", Class::Loopback),
        ("http://a.localhost/", Class::Loopback),
        ("http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/", Class::Loopback),
        ("http://0/", Class::Unspecified),
        ("http://0.0.0.0/", Class::Unspecified),
        ("http://0.1.2.3/", Class::Unspecified),
        ("http://[::]/", Class::Unspecified),
        ("http://10.0.0.1/", Class::Private),
        ("http://167772161/", Class::Private),
        ("http://172.16.0.1/", Class::Private),
        ("http://172.31.255.255/", Class::Private),
        ("http://192.168.1.1/", Class::Private),
        ("http://192.168.257/", Class::Private),
        ("http://0xc0a80101/", Class::Private),
        ("http://100.64.0.1/", Class::CarrierNat),
        ("http://169.254.1.1/", Class::LinkLocal),
        ("http://169.254.169.254/latest/meta-data/", Class::Metadata),
        ("http://2852039166/", Class::Metadata),
        ("http://0xa9fea9fe/", Class::Metadata),
        ("http://0251.0376.0251.0376/", Class::Metadata),
        ("http://[::ffff:169.254.169.254]/", Class::Metadata),
        ("http://[::ffff:a9fe:a9fe]/", Class::Metadata),
        ("http://100.100.100.200/", Class::Metadata),
        ("http://168.63.129.16/", Class::Metadata),
        ("http://metadata.google.internal/", Class::Metadata),
        ("http://METADATA.google.internal./", Class::Metadata),
        ("http://metadata.goog/", Class::Metadata),
        ("http://[fd00:ec2::254]/", Class::Metadata),
        ("http://192.0.0.8/", Class::Reserved),
        ("http://192.0.2.1/", Class::Documentation),
        ("http://198.51.100.1/", Class::Documentation),
        ("http://203.0.113.9/", Class::Documentation),
        ("http://198.18.0.1/", Class::Benchmark),
        ("http://224.0.0.1/", Class::Multicast),
        ("http://255.255.255.255/", Class::Reserved),
        ("http://4294967295/", Class::Reserved),
        ("http://[::1]/", Class::Loopback),
        ("http://[0:0:0:0:0:0:0:1]/", Class::Loopback),
        ("http://[::ffff:127.0.0.1]/", Class::Loopback),
        ("http://[::ffff:7f00:1]/", Class::Loopback),
        ("http://[::127.0.0.1]/", Class::Loopback),
        ("http://[64:ff9b::7f00:1]/", Class::Loopback),
        ("http://[64:ff9b::10.0.0.1]/", Class::Private),
        ("http://[64:ff9b:1::1]/", Class::Private),
        ("http://[2002:a00:1::]/", Class::Private),
        ("http://[2001::f5ff:fffe]/", Class::Private),
        ("http://[fc00::1]/", Class::Private),
        ("http://[fd12:3456::1]/", Class::Private),
        ("http://[fe80::1]/", Class::LinkLocal),
        ("http://[fec0::1]/", Class::Private),
        ("http://[ff02::1]/", Class::Multicast),
        ("http://[2001:db8::1]/", Class::Documentation),
        ("http://printer.local/", Class::LocalName),
        ("http://db.internal/", Class::LocalName),
        ("http://router/", Class::LocalName),
        ("http://nas.lan:8080/", Class::LocalName),
        ("http://vault.corp/", Class::LocalName),
        ("http://127.127.127.127/", Class::Loopback),
        ("http://[::ffff:0:127.0.0.1]/", Class::Loopback),
        ("http://[0000:0000:0000:0000:0000:ffff:7f00:0001]/", Class::Loopback),
        ("http://[::FFFF:7F00:0001]/", Class::Loopback),
        ("http://0x7F000001/", Class::Loopback),
        ("http://0177.1/", Class::Loopback),
        ("http://127.0x0.01/", Class::Loopback),
        ("http://000000000000000000177.0.0.1/", Class::Loopback),
        ("http://①②⑦.⓪.⓪.①/", Class::Loopback),
        ("http://127\u{ff0e}0\u{ff0e}0\u{ff0e}1/", Class::Loopback),
        ("http://127.0.0.1%2e/", Class::Loopback),
        ("http://l\u{00ad}ocalhost/", Class::Loopback),
        ("http://%6c%6f%63%61%6c%68%6f%73%74/", Class::Loopback),
        ("http://localhost:80/", Class::Loopback),
        ("HTTP://LocalHost:443/", Class::Loopback),
        ("http://[::0]/", Class::Unspecified),
        ("http://0.0/", Class::Unspecified),
        ("http://0x0/", Class::Unspecified),
        ("http://00000000000/", Class::Unspecified),
        ("http://10.255.255.255/", Class::Private),
        ("http://012.0.0.1/", Class::Private),
        ("http://0xa.0x0.0x0.0x1/", Class::Private),
        ("http://3232235777/", Class::Private),
        ("http://[::ffff:192.168.0.1]/", Class::Private),
        ("http://[::ffff:c0a8:1]/", Class::Private),
        ("http://[2002:c0a8:101::1]/", Class::Private),
        ("http://[2002:7f00:1::1]/", Class::Loopback),
        ("http://[2002:a9fe:a9fe::]/", Class::Metadata),
        ("http://[2002:808:808::]/", Class::Tunnel),
        ("http://[64:ff9b::a9fe:a9fe]/", Class::Metadata),
        ("http://[64:ff9b::192.168.1.1]/", Class::Private),
        ("http://[2001:0:4136:e378:8000:63bf:80ff:fffe]/", Class::Loopback),
        ("http://[2001:0:4136:e378:8000:63bf:f7f7:f7f7]/", Class::Tunnel),
        ("http://[2606:4700::5efe:10.0.0.1]/", Class::Private),
        ("http://[febf::1]/", Class::LinkLocal),
        ("http://[ff0e::1]/", Class::Multicast),
        ("http://[100::1]/", Class::Reserved),
        ("http://[4000::1]/", Class::Reserved),
        ("http://239.255.255.255/", Class::Multicast),
        ("http://240.0.0.1/", Class::Reserved),
        ("http://192.88.99.1/", Class::Tunnel),
        ("http://100.127.255.255/", Class::CarrierNat),
        ("http://169.254.170.2/v2/credentials", Class::Metadata),
        ("http://169.254.170.23/", Class::Metadata),
        ("http://169.254.43518/", Class::Metadata),
        ("http://0xa9.254.0251.254/", Class::Metadata),
        ("http://[fd20:ce::254]/", Class::Metadata),
        ("http://instance-data.ec2.internal/", Class::Metadata),
        ("http://x.metadata.goog/", Class::Metadata),
        ("http://wiki.intranet/", Class::LocalName),
        ("http://nas.home.arpa/", Class::LocalName),
        ("http://a.localdomain./", Class::LocalName),
    ] {
        match refusal(&client, url).await {
            NetError::Forbidden { class: found, address: None, .. } => assert_eq!(found, class, "{url}"),
            other => panic!("{url}: {other:?}"),
        }
        let address = Address::read(url).unwrap();
        assert!(client.guard().screen(&address).is_err(), "{url} is seen through without a look-up");
    }
}

#[tokio::test]
async fn what_is_not_a_plain_web_address_is_not_read() {
    let client = Client::default();
    for url in [
        "",
        "example.com",
        "//example.com/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "data:text/html,hello",
        "javascript:alert(1)",
        "unix:/run/docker.sock",
        "http://",
        "http:///",
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[::1",
        "http://user@example.com/",
        "http://user:word@example.com/",
        "http://127.0.0.1\\@example.com/",
        "http://example.com:0/",
        "http://example.com:99999/",
        "http://exa mple.com/",
        "http://exam\nple.com/",
        "http://example.com/\r\nx: y",
        "http://256.256.256.256/",
        "http://1.2.3.4.5/",
        "http://.../",
    ] {
        let error = refusal(&client, url).await;
        assert!(matches!(error, NetError::BadAddress(_)), "{url:?}: {error:?}");
    }
}

#[tokio::test]
async fn a_refusal_shows_neither_user_names_nor_queries() {
    let secret = "hunter2";
    for url in [format!("http://me:{secret}@example.com/"), format!("ftp://example.com/?key={secret}")] {
        let said = refusal(&Client::default(), &url).await.to_string();
        assert!(!said.contains(secret), "{said}");
    }
}

#[test]
fn what_is_allowed_through_is_in_its_plain_form() {
    for (text, plain, host) in [
        ("HTTP://EXAMPLE.com", "http://example.com/", "example.com"),
        ("https://example.com.:443/a?b#c", "https://example.com/a?b", "example.com"),
        ("http://134744072/", "http://8.8.8.8/", "8.8.8.8"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/", "xn--bcher-kva.example"),
        ("http://[2606:4700:0::1111]:80/", "http://[2606:4700::1111]/", "2606:4700::1111"),
    ] {
        let address = Address::read(text).unwrap();
        assert_eq!((address.as_str(), address.host()), (plain, host));
        assert_eq!(Guard::default().screen(&address), Ok(()));
    }
}

#[tokio::test]
async fn one_private_address_among_public_ones_refuses_the_name() {
    for list in
        [&["93.184.215.14", "10.0.0.7"][..], &["2606:4700::1", "::ffff:127.0.0.1"], &["169.254.169.254"]]
    {
        let guard = Guard::default().resolving_with(Answers::of(&[list]));
        let error = refusal(&Client::default().guarded_by(guard), "http://mixed.example/").await;
        let NetError::Forbidden { host, address: Some(address), .. } = &error else { panic!("{error:?}") };
        assert_eq!((host.as_str(), *address), ("mixed.example", list.last().unwrap().parse().unwrap()));
        assert!(error.to_string().contains(&format!("it resolves to {address}")), "{error}");
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_reaches_only_what_was_judged() {
    let server = WebServer::of_pages([("/", Page::html("public"))]).await;
    let port = server.address().port();
    // The one address of the server counts as public here; the loopback as such does not.
    let answers = Answers::of(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let guard = Guard::allowing([server.address().to_string()]).unwrap().resolving_with(answers.clone());
    let client = Client::default().guarded_by(guard);
    let url = format!("http://rebind.example:{port}/");
    let reply = client.call(get(&url)).await.unwrap();
    assert_eq!(reply.bytes(100).await.unwrap(), b"public");
    assert_eq!(answers.asked(), 1, "nobody asks again between the judgement and the connection");
    let error = refusal(&client, &url).await;
    assert!(matches!(error, NetError::Forbidden { class: Class::Loopback, .. }), "{error:?}");
    assert_eq!(server.asked().len(), 1);
    assert_eq!(server.asked()[0].headers["host"], format!("rebind.example:{port}"));
}

#[tokio::test]
async fn an_allowance_is_for_one_host_and_one_port() {
    let server = WebServer::of_pages([("/", Page::html("inside"))]).await;
    let port = server.address().port();
    let guard = Guard::allowing([format!("wiki.lan:{port}")]).unwrap();
    let client = Client::default().guarded_by(guard.resolving_with(Answers::of(&[&["127.0.0.1"]])));
    let reply = client.call(get(&format!("http://WIKI.lan:{port}/"))).await.unwrap();
    assert_eq!(reply.status(), 200);
    for url in [
        format!("http://wiki.lan:{}/", port ^ 1),
        format!("http://127.0.0.1:{port}/"),
        format!("http://evil.example:{port}/"),
        format!("http://x.wiki.lan:{port}/"),
    ] {
        let error = refusal(&client, &url).await;
        assert!(matches!(error, NetError::Forbidden { .. }), "{url}: {error:?}");
    }
    for entry in [
        "wiki.lan",
        "*",
        "*:80",
        "",
        ":80",
        "http://wiki.lan:80",
        "wiki.lan:0",
        "a:b",
        "[::1]",
        "wiki.lan:80/x",
    ] {
        assert!(Guard::allowing([entry]).is_err(), "{entry}");
    }
}

#[tokio::test]
async fn a_name_nobody_knows_is_told_as_that() {
    let guard = Guard::default().resolving_with(Answers::of(&[&[]]));
    let error = refusal(&Client::default().guarded_by(guard), "http://nowhere.example/").await;
    assert_eq!(error, NetError::Unresolved("nowhere.example".to_owned()));
}

#[test]
fn the_vectors_agree_but_for_nat64_which_we_see_through() {
    let text = include_str!("../../../testkit/fixtures/vectors/ssrf.json");
    let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
    for case in vectors["ssrf"].as_array().unwrap() {
        let address = case["a"].as_str().unwrap();
        let private = class_of(address.parse().unwrap()).is_some();
        // Recorded as public by a guard that did not know NAT64; it leads to 127.0.0.1.
        let expected = case["priv"].as_bool().unwrap() || address == "64:ff9b::7f00:1";
        assert_eq!(private, expected, "{address}");
    }
}

proptest! {
    #[test]
    fn however_an_address_is_spelled_it_is_judged_as_itself(bits: u32, dot in prop::bool::ANY) {
        let [a, b, c, d] = bits.to_be_bytes();
        let (low, rest) = (bits & 0xffff, bits & 0x00ff_ffff);
        let expected = class_of(IpAddr::V4(bits.into()));
        let end = if dot { "." } else { "" };
        for host in [
            format!("{a}.{b}.{c}.{d}{end}"),
            format!("{bits}{end}"),
            format!("{bits:#x}{end}"),
            format!("0{bits:o}{end}"),
            format!("{a:#x}.0{b:o}.{c}.{d:#X}").replace("0X", "0x"),
            format!("{a}.{rest}"),
            format!("{a}.{b}.{low:#x}"),
            format!("[::ffff:{a}.{b}.{c}.{d}]"),
            format!("[64:ff9b::{a:x}{b:02x}:{c:x}{d:02x}]"),
        ] {
            let address = Address::read(&format!("http://{host}/")).unwrap();
            let found = Guard::default().screen(&address);
            match (expected, found) {
                (None, Ok(())) => {}
                (Some(expected), Err(NetError::Forbidden { class, .. })) => prop_assert_eq!(class, expected, "{}", host),
                (expected, found) => prop_assert!(false, "{}: {:?} but {:?}", host, expected, found),
            }
        }
    }
}
