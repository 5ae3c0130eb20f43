//! Keys that programs use and do not see.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tidegate_net::{EgressProxy, ProxyLimits, ProxyRules};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::{Scene, key, rules, server, status};

const SECRET: &str = "Bearer of-a-secret";

#[tokio::test]
async fn a_plain_request_gets_the_key_of_its_host_and_no_other_does() {
    let server = server().await;
    let port = server.address().port();
    let credentials = vec![key("API.example.", SECRET, false)];
    let scene = Scene::new(ProxyRules { credentials, ..rules(server.address(), &["*.example"]) });
    for (host, sent, expected) in [
        ("api.example", "", Some(SECRET)),
        ("api.example", "authorization: mine\r\nAuthorization: mine too\r\n", Some(SECRET)),
        ("other.example", "authorization: mine\r\n", Some("mine")),
        ("other.example", "", None),
    ] {
        let answer = scene.get(&format!("http://{host}:{port}/"), sent).await;
        assert_eq!(status(&answer), 200);
        assert!(!answer.contains("of-a-secret"), "{answer}");
        let asked = server.asked().pop().unwrap();
        assert_eq!(asked.headers.get("authorization").map(String::as_str), expected, "{host} {sent}");
    }
}

#[tokio::test]
async fn a_tunnel_gets_no_key() {
    let server = server().await;
    let place = format!("api.example:{}", server.address().port());
    let credentials = vec![key("api.example", SECRET, false)];
    let scene = Scene::new(ProxyRules { credentials, ..rules(server.address(), &["api.example"]) });
    let (mut stream, _) = scene.connect_to(&place).await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: api.example\r\n\r\n").await.unwrap();
    super::all(&mut stream).await;
    assert!(!server.asked()[0].headers.contains_key("authorization"));
}

#[tokio::test]
async fn a_refusal_and_a_failure_show_no_key() {
    let server = server().await;
    let address = server.address();
    // Spoken to with TLS, the plain server waits for a request that never comes.
    let credentials = vec![key("api.example", SECRET, true)];
    let limits = ProxyLimits { connect: Duration::from_millis(300), ..ProxyLimits::default() };
    let rules = ProxyRules { credentials, ..rules(address, &["api.example"]) };
    let scene = Scene::within(rules, limits);
    let answer = scene.get(&format!("http://api.example:{}/", address.port()), "").await;
    assert_eq!(status(&answer), 504, "{answer}");
    assert!(!answer.contains("of-a-secret"), "{answer}");
    assert_eq!(server.asked(), [], "the key does not travel unencrypted");
}

#[tokio::test]
async fn a_credential_that_cannot_be_used_is_told_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let listen = |credential| {
        let rules = ProxyRules { credentials: vec![credential], ..ProxyRules::default() };
        EgressProxy::listen(&folder.path().join("egress.sock"), rules).err().unwrap().to_string()
    };
    let mut odd = key("api.example", SECRET, true);
    odd.header = "not a header".to_owned();
    for said in
        [listen(key("*.example", SECRET, true)), listen(odd), listen(key("a.example", "of-a-secret\n", true))]
    {
        assert!(said.contains("egress.credentials.api") && !said.contains("of-a-secret"), "{said}");
    }
}

/// Answers one request over TLS with what it was asked, then goes on with the next.
async fn encrypted_server() -> u16 {
    let certificate =
        CertificateDer::from_pem_slice(include_bytes!("../certificates/certificate.pem")).unwrap();
    let private = PrivateKeyDer::from_pem_slice(include_bytes!("../certificates/key.pem")).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], private);
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tidegate_runtime::spawn("encrypted server", async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut head = vec![0; 8 << 10];
            let read = stream.read(&mut head).await.unwrap();
            let had = String::from_utf8_lossy(&head[..read]).contains(SECRET);
            let body = format!("the key was there: {had}");
            let length = body.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
            let _ = stream.shutdown().await;
        }
    });
    port
}

/// Which authorities are believed is the process's business, so that this is a process of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_request_to_a_host_with_a_key_is_made_encrypted() {
    const NAME: &str = "proxying::keys::a_plain_request_to_a_host_with_a_key_is_made_encrypted";
    const CHILD: &str = "TIDEGATE_TEST_ENCRYPTED";
    if std::env::var_os(CHILD).is_none() {
        let authority = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/certificates/authority.pem");
        let mut again = Command::new(std::env::current_exe().unwrap());
        again
            .args(["--exact", NAME])
            .env(CHILD, "1")
            .env("SSL_CERT_FILE", authority)
            .env_remove("SSL_CERT_DIR");
        let output = again.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        return;
    }
    let port = encrypted_server().await;
    let credentials = vec![key("api.example", SECRET, true)];
    let address = ([127, 0, 0, 1], port).into();
    let scene = Scene::new(ProxyRules { credentials, ..rules(address, &["*.example"]) });
    let url = format!("http://api.example:{port}/path");
    let asked = scene.get(&url, "authorization: mine\r\n");
    let answer = tokio::time::timeout(Duration::from_secs(30), asked).await.unwrap();
    assert!(answer.ends_with("the key was there: true"), "{answer}");
    // The certificate is not this host's, so that nothing is sent.
    let credentials = vec![key("other.example", SECRET, true)];
    let scene = Scene::new(ProxyRules { credentials, ..rules(address, &["*.example"]) });
    let answer = scene.get(&format!("http://other.example:{port}/"), "").await;
    assert_eq!(status(&answer), 502, "{answer}");
}
