//! What pages reach, and what they do not.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tidegate_net::{Guard, Resolver};
use tidegate_testkit::web_server::{Page, WebServer};
use tidegate_tools::BrowserSettings;

use crate::browser_scene::{fenced, scene, scene_with, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_page_gets_nothing_from_a_private_address_by_any_of_its_ways() {
    let canary = WebServer::answering(|_| Page::html("SECRET")).await;
    let (there, port) = (canary.url(""), canary.address().port());
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let udp = socket.local_addr().unwrap().port();
    let page = format!(
        "<title>ways</title><img src=\"{there}/img\"><iframe src=\"{there}/frame\"></iframe>\
         <link rel=stylesheet href=\"{there}/css\"><link rel=preconnect href=\"{there}\"><link rel=prefetch href=\"{there}/pre\">\
         <object data=\"{there}/object\"></object><script src=\"{there}/script\"></script>\
         <iframe src=\"/hop\"></iframe><iframe src=\"http://2130706433:{port}/decimal\"></iframe>\
         <iframe src=\"file:///etc/passwd\"></iframe><p id=out></p><script>\
         let left = 6; const over = () => {{ if (--left === 0) out.textContent = 'everything was tried'; }};\
         fetch('{there}/fetch').finally(over).catch(() => 0); fetch('/hop').finally(over).catch(() => 0);\
         fetch('http://[::ffff:127.0.0.1]:{port}/mapped').finally(over).catch(() => 0);\
         fetch('http://localhost:{port}/name').finally(over).catch(() => 0);\
         const socket = new WebSocket('ws://127.0.0.1:{port}/ws'); socket.onerror = over; socket.onopen = over;\
         navigator.sendBeacon('{there}/beacon', 'x');\
         const worker = new Worker(URL.createObjectURL(new Blob([`fetch('{there}/worker').catch(() => 0).then(() => postMessage(1))`])));\
         worker.onmessage = over;\
         const peer = new RTCPeerConnection({{ iceServers: [{{ urls: 'stun:127.0.0.1:{udp}' }}] }});\
         peer.createDataChannel('x'); peer.createOffer().then(offer => peer.setLocalDescription(offer));\
         </script>"
    );
    let hop = format!("{there}/hop");
    let server = WebServer::of_pages([("/", Page::html(&page)), ("/hop", Page::redirect(302, &hop))]).await;
    let Some(scene) = scene(&[&server]) else { return };
    scene.open(&server.url("/")).await;
    scene.wait("everything was tried").await;
    let seen = scene.snapshot().await;
    assert!(!seen.contains("SECRET") && !seen.contains("root:"), "{seen}");
    let said = text(&scene.call(json!({ "action": "console" })).await.unwrap());
    assert!(fenced(&said).0.contains("not fetched: 127.0.0.1 is not called"), "{said}");

    for url in [format!("{there}/direct"), "file:///etc/passwd".to_owned(), "chrome://version".to_owned()] {
        scene.call(json!({ "action": "navigate", "url": url })).await.unwrap_err();
    }
    let redirected =
        scene.call(json!({ "action": "navigate", "url": server.url("/hop") })).await.unwrap_err();
    assert_eq!(redirected.details.unwrap()["policy"]["stage"], "egress");
    scene.browsers.close().await;
    assert_eq!(canary.asked(), []);
    let mut buffer = [0; 16];
    assert!(socket.try_recv(&mut buffer).is_err(), "a packet came");
}

/// Answers with the first address once, and with the second ever after.
struct Rebinding {
    asked: AtomicUsize,
    names: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl Resolver for Rebinding {
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        self.names.lock().unwrap().push(name.to_owned());
        let first = self.asked.fetch_add(1, Ordering::Relaxed) == 0;
        Ok(vec![IpAddr::V4(if first { Ipv4Addr::LOCALHOST } else { Ipv4Addr::new(127, 0, 0, 2) })])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_made_to_point_elsewhere_is_judged_again() {
    let page = "<p id=out>…</p><script>fetch('/secret').then(answer => answer.text()).then(text => out.textContent = text,\
                () => out.textContent = 'refused')</script>";
    let server = WebServer::of_pages([("/", Page::html(page))]).await;
    let port = server.address().port();
    let canary = tokio::net::TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), port)).await.unwrap();
    let resolver = Arc::new(Rebinding { asked: AtomicUsize::new(0), names: Mutex::default() });
    let guard =
        Guard::allowing([server.address().to_string()]).unwrap().resolving_with(Arc::clone(&resolver) as _);
    let Some(scene) = scene_with(guard, BrowserSettings::default()) else { return };
    scene.open(&format!("http://rebind.example:{port}/")).await;
    scene.wait("refused").await;
    scene.browsers.close().await;
    let nobody = tokio::time::timeout(Duration::from_millis(50), canary.accept()).await;
    assert!(nobody.is_err(), "the second address was called");
    let names = resolver.names.lock().unwrap().clone();
    assert!(names.len() >= 2 && names.iter().all(|name| name == "rebind.example"), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cookies_forms_and_preflights_are_the_browsers_own() {
    let other = WebServer::answering(|asked| match asked.method.as_str() {
        "OPTIONS" => Page::with_headers(
            204,
            &[
                ("access-control-allow-origin", "*"),
                ("access-control-allow-methods", "PUT"),
                ("access-control-allow-headers", "x-a"),
            ],
            "",
        ),
        _ if asked.path == "/closed" => Page::new(200, "text/plain", "not for you"),
        _ => Page::with_headers(200, &[("access-control-allow-origin", "*")], "for you"),
    })
    .await;
    let there = other.url("");
    let page = format!(
        "<p id=out></p><script>(async () => {{ let say = '';\
         say += await fetch('{there}/closed').then(answer => answer.text()).catch(() => 'kept out'); say += '; ';\
         say += await fetch('{there}/open', {{ method: 'PUT', headers: {{ 'x-a': '1' }}, body: 'hi' }}).then(answer => answer.text());\
         await fetch('/post', {{ method: 'POST', body: 'from the page' }}); out.textContent = say; }})()</script>"
    );
    let server = WebServer::answering(move |asked| match asked.path.as_str() {
        "/" => Page::with_headers(
            302,
            &[("location", "/home"), ("set-cookie", "a=1; HttpOnly"), ("set-cookie", "b=2")],
            "",
        ),
        "/home" => Page::html(&page),
        _ => Page::html("ok"),
    })
    .await;
    let Some(scene) = scene(&[&server, &other]) else { return };
    scene.open(&server.url("/")).await;
    scene.wait("kept out; for you").await;
    scene.browsers.close().await;
    let methods: Vec<_> = other.asked().into_iter().map(|asked| asked.method).collect();
    assert_eq!(methods, ["GET", "OPTIONS", "PUT"]);
    let post = server.asked().into_iter().find(|asked| asked.path == "/post").unwrap();
    assert_eq!((post.headers["cookie"].as_str(), post.body.as_slice()), ("a=1; b=2", &b"from the page"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_floods_is_bounded() {
    let large = "<title>large</title><script>for (let i = 0; i < 60000; i++) { const p = document.createElement('p'); \
                 p.textContent = 'paragraph ' + i; document.body.append(p); } document.body.append('the end');</script>";
    let loud = "<p>loud<script>for (let i = 0; i < 3000; i++) console.log('x'.repeat(2000) + i); for (let i = 0; i < 50; i++) open('/');\
                for (let i = 0; i < 40; i++) alert(i);</script>";
    let pages = [
        ("/large", Page::html(&format!("<body>{large}"))),
        ("/loud", Page::html(loud)),
        ("/", Page::html("<p>calm")),
        (
            "/endless",
            Page::raw("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n").then_flood(&[b'x'; 4096]),
        ),
    ];
    let server = WebServer::of_pages(pages).await;
    let Some(scene) = scene(&[&server]) else { return };
    scene.open(&server.url("/large")).await;
    scene.wait("the end").await;
    let seen = scene.call(json!({ "action": "snapshot", "maxChars": 5_000 })).await.unwrap();
    let shown = text(&seen);
    assert!(seen.truncated && shown.len() < 7_000 && shown.contains("paragraph 1\n"), "{}", shown.len());
    let full = scene.call(json!({ "action": "screenshot", "fullPage": true })).await.unwrap();
    assert!(full.data.unwrap()["bytes"].as_u64().unwrap() < 4 << 20);

    scene.call(json!({ "action": "navigate", "url": server.url("/loud") })).await.unwrap();
    scene.wait("loud").await;
    let said = text(&scene.call(json!({ "action": "console" })).await.unwrap());
    assert!(said.len() < 60_000 && said.contains("a dialog was dismissed"), "{}", said.len());
    let tabs = scene.call(json!({ "action": "tabs" })).await.unwrap().data.unwrap()["tabs"].clone();
    assert!(tabs.as_array().unwrap().len() <= 9, "{tabs}");

    let endless = scene
        .call(json!({ "action": "navigate", "tab": "t1", "url": server.url("/endless") }))
        .await
        .unwrap_err();
    assert!(endless.message.contains("larger than"), "{}", endless.message);
    scene.call(json!({ "action": "navigate", "tab": "t1", "url": server.url("/") })).await.unwrap();
    let calm = scene.call(json!({ "action": "snapshot", "tab": "t1" })).await.unwrap();
    assert!(text(&calm).contains("calm"));
    scene.browsers.close().await;
}
