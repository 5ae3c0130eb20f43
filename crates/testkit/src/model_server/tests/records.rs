//! Requests are kept whole, and what happens at once is counted.

use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};

use super::client::{ask, begin, get, post, send};
use crate::model_server::{Format, ModelServer, Step, Turn};

#[tokio::test]
async fn a_request_is_recorded_whole() {
    let server = ModelServer::start().await;
    let body = json!({"model": "m", "contents": [{"role": "user", "parts": [{"text": "grüß dich"}]}]});
    let request = Request::post("/v1beta/models/m:generateContent?key=a%20b&alt=json")
        .header("host", "played")
        .header("X-Twice", "one")
        .header("x-twice", "two")
        .header("content-type", "application/json");
    send(&server, request.body(Full::from(body.to_string())).unwrap()).await.unwrap().all().await;
    let seen = server.last_request();
    let query: Vec<_> = seen.query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/v1beta/models/m:generateContent"));
    assert_eq!(query, [("alt", "json"), ("key", "a b")]);
    assert_eq!(seen.header("x-twice"), Some("one, two"));
    assert_eq!(seen.body, body);
    assert_eq!(server.requests(), [seen]);
}

#[tokio::test]
async fn json_is_known_whatever_it_is_called_and_text_stays_text() {
    let server = ModelServer::start().await;
    for (sent, recorded) in [(r#"{"model":"m"}"#, json!({"model": "m"})), ("a=b c", json!("a=b c"))] {
        let request =
            Request::post("/v1/messages").header("host", "played").header("content-type", "text/plain");
        send(&server, request.body(Full::from(sent)).unwrap()).await.unwrap().all().await;
        assert_eq!(server.last_request().body, recorded);
    }
}

#[tokio::test]
async fn a_form_is_recorded_as_an_object_and_a_sign_in_goes_its_whole_way() {
    let server = ModelServer::start().await;
    let page = get(&server, "/oauth/authorize?redirect_uri=http%3A%2F%2Flocalhost%3A1%2Fback&state=s1").await;
    assert_eq!(page.status, 302);
    let request = Request::post("/oauth/token")
        .header("host", "played")
        .header("content-type", "application/x-www-form-urlencoded");
    let form = "grant_type=authorization_code&code=code-0001&redirect_uri=http%3A%2F%2Flocalhost%3A1%2Fback";
    let came = send(&server, request.body(Full::from(form)).unwrap()).await.unwrap().all().await;
    assert_eq!(came.json()["refresh_token"], "refresh-0002");
    let wanted = json!({
        "grant_type": "authorization_code", "code": "code-0001", "redirect_uri": "http://localhost:1/back",
    });
    assert_eq!(server.last_request().body, wanted);
}

#[tokio::test]
async fn github_confirms_after_its_polls_and_copilot_gives_a_token_for_it() {
    let server = ModelServer::start().await;
    server.set_pending_polls(1);
    let device = post(&server, "/login/device/code", &json!({"client_id": "c"})).await.all().await.json();
    assert_eq!(device["user_code"], "TIDE-GATE");
    let mut polls = Vec::new();
    for _ in 0..2 {
        let poll = json!({"device_code": device["device_code"]});
        polls.push(post(&server, "/login/oauth/access_token", &poll).await.all().await.json());
    }
    assert_eq!(polls[0]["error"], "authorization_pending");
    assert_eq!(get(&server, "/copilot_internal/v2/token").await.status, 401);
    let token = polls[1]["access_token"].as_str().unwrap();
    let request = Request::get("/copilot_internal/v2/token")
        .header("host", "played")
        .header("authorization", format!("token {token}"));
    let copilot = send(&server, request.body(Full::default()).unwrap()).await.unwrap().all().await.json();
    assert_eq!(copilot["endpoints"]["api"], server.base_url());
    assert!(copilot["token"].as_str().unwrap().contains("proxy-ep="));
}

#[tokio::test]
async fn requests_are_given_out_in_order_and_written_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("requests.jsonl");
    let server = ModelServer::start().await;
    server.record_to(&file).unwrap();
    ask(&server, Format::Anthropic).await;
    ask(&server, Format::Ollama).await;
    let given = [server.next_request().await, server.next_request().await];
    assert_eq!(given.each_ref().map(|request| request.path.as_str()), ["/v1/messages", "/api/chat"]);
    let lines = std::fs::read_to_string(file).unwrap();
    let written: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(written, given.map(|request| request.to_json()));
}

#[tokio::test]
async fn the_next_request_is_waited_for() {
    let server = ModelServer::start().await;
    let (request, _) = tokio::join!(server.next_request(), ask(&server, Format::Bedrock));
    assert_eq!(request.path, "/model/m/converse-stream");
}

#[tokio::test]
async fn those_who_wait_at_once_are_counted() {
    let server = ModelServer::start().await;
    server.always(Turn::new([Step::Silence]));
    let first = begin(&server, Format::Anthropic).await;
    let second = begin(&server, Format::Google).await;
    assert_eq!((server.active(), server.peak()), (2, 2));
    drop((first, second));
    server.until_dropped(2).await;
    assert_eq!((server.active(), server.peak()), (0, 2));
}

#[tokio::test]
async fn a_path_or_a_model_may_have_turns_of_its_own() {
    let server = ModelServer::start().await;
    server.push_for("/oauth/token", Turn::json(503, json!({"error": "temporarily_unavailable"})));
    let refresh = json!({"grant_type": "refresh_token", "refresh_token": "r"});
    let mut answers = Vec::new();
    for _ in 0..2 {
        answers.push(post(&server, "/oauth/token", &refresh).await.all().await.status);
    }
    assert_eq!(answers, [503, 200]);
    let script = r#"[{"for": "m", "always": true, "turn": [{"say": "from the file"}]}]"#;
    server.read_script(script).unwrap();
    for _ in 0..2 {
        assert!(ask(&server, Format::Ollama).await.text().contains("from the f"));
    }
}

#[tokio::test]
async fn a_stopped_server_leaves_its_port() {
    let server = ModelServer::start().await;
    let port = server.base_url().rsplit_once(':').unwrap().1.parse().unwrap();
    server.stop().await;
    assert!(ModelServer::start_on(port).await.is_ok());
}
