//! Small files of every kind.

use super::*;

fn sums(text: &str) -> (usize, usize, usize) {
    let report = run(text).unwrap();
    (report.passed, report.failed, report.skipped)
}

#[test]
fn what_is_as_recorded_is_counted_and_not_told() {
    let report = run(r#"{"_note": "n", "silent": [{"text": "NO_REPLY", "silent": true}]}"#).unwrap();
    assert_eq!(report, Report { passed: 1, ..Report::default() });
    assert_eq!(report.text(), "1 passed, 0 failed, 0 skipped\n");
}

#[test]
fn what_differs_is_told_with_both_answers() {
    let report = run(r#"{"silent": [{"text": "hi", "silent": true}]}"#).unwrap();
    assert_eq!((report.passed, report.failed, report.skipped), (0, 1, 0));
    for part in ["silent[0]: differs", "expected true", "ours false"] {
        assert!(report.lines[0].contains(part), "{}", report.lines[0]);
    }
    assert!(report.text().ends_with("\n0 passed, 1 failed, 0 skipped\n"));
}

#[test]
fn a_group_that_nobody_has_is_named_and_its_cases_are_skipped() {
    let report = run(r#"{"tea_leaves": [1, 2], "one": {"x": 1}}"#).unwrap();
    assert_eq!((report.passed, report.failed, report.skipped), (0, 0, 3));
    assert!(report.lines.contains(&"tea_leaves: not a group we have, 2 skipped".to_owned()));
}

#[test]
fn a_group_that_is_not_ours_on_purpose_says_why() {
    let report = run(r#"{"bm25": [1, 2]}"#).unwrap();
    assert_eq!(report.skipped, 2);
    assert!(report.lines[0].starts_with("bm25: 2 skipped: memory is"), "{}", report.lines[0]);
}

#[test]
fn a_case_that_is_none_of_its_group_has_failed() {
    for case in [r#"{"text": "hi"}"#, r#"{"text": 7, "silent": true}"#, "3", "null", r#"["a"]"#] {
        let report = run(&format!(r#"{{"silent": [{case}]}}"#)).unwrap();
        assert_eq!((report.passed, report.failed, report.skipped), (0, 1, 0), "{case}");
        assert!(report.lines[0].starts_with("silent[0]: cannot be run: "), "{}", report.lines[0]);
    }
    assert_eq!(sums(r#"{"ssrf": [{"a": "not an address", "priv": true}]}"#), (0, 1, 0));
    assert_eq!(sums(r#"{"think_level": [{"in": "low"}]}"#), (0, 1, 0));
}

#[test]
fn what_differs_on_purpose_is_told_and_skipped() {
    let report = run(r#"{"ssrf": [{"a": "64:ff9b::7f00:1", "priv": false}]}"#).unwrap();
    assert_eq!((report.passed, report.failed, report.skipped), (0, 0, 1));
    assert!(report.lines[0].starts_with("ssrf[0]: differs on purpose: "), "{}", report.lines[0]);
}

#[test]
fn a_purpose_excuses_nothing_else_of_its_group() {
    assert_eq!(sums(r#"{"ssrf": [{"a": "127.0.0.1", "priv": false}]}"#), (0, 1, 0));
    let marked = r#"{"think_level": [{"in": "low", "out": null, "upstream_defect": true, "reason": "r"}]}"#;
    assert_eq!(sums(marked), (0, 1, 0), "that a file calls it a defect does not make ours right");
    assert_eq!(
        sums(r#"{"exec": [{"c": "git a", "analysisOk": false, "ok": false, "argv": []}]}"#),
        (0, 1, 0)
    );
}

/// The recorded cases about agents. Whatever is not as recorded is named here.
#[test]
fn the_recorded_cases_about_agents_are_as_recorded_but_for_these() {
    let report = run(include_str!("../../fixtures/vectors/agent.json")).unwrap();
    let mut named: Vec<&str> =
        report.lines.iter().filter_map(|line| line.split_once(": ").map(|(name, _)| name)).collect();
    named.sort_unstable();
    let on_purpose = [
        "exec[1]",
        "exec[2]",
        "exec[6]",
        "failover_error[2]",
        "reasoning_strip[3]",
        "silent[2]",
        "silent[3]",
        "ssrf[3]",
    ];
    assert_eq!(named, on_purpose, "{}", report.text());
    assert_eq!((report.passed, report.failed, report.skipped), (110, 0, 8));
}

#[test]
fn a_purpose_about_code_is_not_one_about_a_text_with_code_in_it() {
    let case = r#"{"reasoning_strip": [{"text": "<think>x</think> `a`", "strict": "y", "preserve": "y"}]}"#;
    assert_eq!(sums(case), (0, 1, 0));
}

#[test]
fn one_case_may_stand_alone() {
    let one = r#"{"trunc_tail": {"content": "aéaé", "truncatedBy": "bytes", "lastLinePartial": true}}"#;
    assert_eq!(sums(one), (1, 0, 0));
}

#[test]
fn what_is_no_file_of_groups_is_refused() {
    for text in ["", "{", "[]", "7"] {
        assert!(run(text).is_err(), "{text:?}");
    }
}

#[test]
fn what_programs_send_over_http_is_put_to_the_gateways_own_decisions() {
    let file = r#"{
        "openai_prompt": [{"in": [{"role": "user", "content": "hi"}], "out": {"message": "hi"}}],
        "openresponses_prompt": [{"in": "hello", "out": {"message": "hello"}}],
        "openai_routing": [{
            "in": {"headers": {"authorization": "Bearer t"}, "model": "moltbot:ops", "user": "U"},
            "out": {"agentId": "ops", "bearer": "t", "sessionKey": "agent:ops:openai-user:u"}
        }],
        "hook_template": [{
            "in": {"template": "{{a[0]}} {{x", "ctx": {"payload": {"a": [1]}, "headers": {}, "path": "p", "query": {}}},
            "out": "1 {{x"
        }],
        "hook_wake_payload": [{"in": {"text": " "}, "out": {"ok": false, "error": "text required"}}],
        "hook_config": [{"in": {"hooks": {"enabled": true}}, "err": {"message": "hooks.enabled requires hooks.token"}}],
        "hook_token": [{"in": {"headers": {}, "url": "/x?token=c"}, "out": {"token": "c", "fromQuery": true}}]
    }"#;
    let report = run(file).unwrap();
    assert_eq!((report.passed, report.failed, report.skipped), (6, 0, 1), "{}", report.text());
}

#[test]
fn the_socket_is_asked_as_its_clients_ask_it() {
    let file = r#"{
        "error_shape": [{"in": {"code": "NOT_PAIRED", "message": "m"}, "out": {"code": "NOT_PAIRED", "message": "m"}}],
        "protocol_validate": [
            {"in": {"method": "agent.wait", "params": {}}, "out": {"ok": false, "error": "must have required property 'runId'"}},
            {"in": {"method": "agent.wait", "params": {"runId": "r"}}, "out": {"ok": true, "error": null}}
        ],
        "gateway_local": [
            {"in": {"remoteAddress": "127.0.0.1", "headers": {"host": "localhost"}}, "out": {"local": true}},
            {"in": {"remoteAddress": "10.0.0.2", "headers": {"host": "localhost", "x-forwarded-for": "127.0.0.1"}}, "out": {"local": true}}
        ]
    }"#;
    assert_eq!(sums(file), (4, 0, 1));
    assert_eq!(
        sums(r#"{"protocol_validate": [{"in": {"method": "tea.make", "params": {}}, "out": null}]}"#),
        (0, 1, 0)
    );
}

/// The recorded cases about the gateway. Whatever is not as recorded is named here.
#[test]
fn the_recorded_cases_about_the_gateway_are_as_recorded_but_for_these() {
    let report = run(include_str!("../../fixtures/vectors/gateway.json")).unwrap();
    let mut named: Vec<&str> =
        report.lines.iter().filter_map(|line| line.split_once(": ").map(|(name, _)| name)).collect();
    named.sort_unstable();
    let on_purpose = [
        "device_verify[4]",
        "gateway_auth[12]",
        "gateway_auth[4]",
        "gateway_auth[5]",
        "gateway_auth[6]",
        "gateway_auth_resolve",
        "gateway_local[6]",
        "hook_config[6]",
        "hook_config[7]",
        "hook_template[11]",
        "hook_token[4]",
        "hook_token[5]",
        "hook_token[6]",
        "session_store_key[1]",
        "session_store_key[2]",
        "session_store_key[3]",
        "session_store_key[4]",
    ];
    assert_eq!(named, on_purpose, "{}", report.text());
    assert_eq!((report.passed, report.failed, report.skipped), (153, 0, 24));
}
