//! Patterns, levels, and that nothing that is added widens.

use proptest::prelude::*;

use super::*;

fn pattern(text: &str) -> HostPattern {
    HostPattern::parse(text).unwrap()
}

fn level(key: &str, allow: Option<&[&str]>, deny: &[&str]) -> HostLevel {
    let read = |list: &[&str]| list.iter().map(|text| pattern(text)).collect();
    HostLevel { key: key.to_owned(), allow: allow.map(read), deny: read(deny) }
}

fn rules(levels: impl IntoIterator<Item = HostLevel>) -> HostRules {
    levels.into_iter().fold(HostRules::default(), HostRules::and)
}

#[test]
fn a_pattern_means_one_host_or_what_is_below_a_domain() {
    for (text, host, meant) in [
        ("example.com", "example.com", true),
        ("example.com", "EXAMPLE.com.", true),
        ("Example.COM.", "example.com", true),
        ("example.com", "www.example.com", false),
        ("example.com", "example.com.evil.test", false),
        ("example.com", "notexample.com", false),
        ("*.example.com", "example.com", false),
        ("*.example.com", "a.example.com", true),
        ("*.example.com", "b.A.example.com.", true),
        ("*.example.com", "notexample.com", false),
        ("*.example.com", "a.example.com.evil.test", false),
        ("*.example.com", ".example.com", false),
        ("bücher.example", "xn--bcher-kva.example", true),
        ("xn--bcher-kva.example", "BÜCHER.example", true),
        ("*.bücher.example", "a.xn--bcher-kva.example", true),
        ("example.com", "ｅｘａｍｐｌｅ。com", true),
        ("8.8.8.8", "134744072", true),
        ("8.8.8.8", "0x8.8.8.8", true),
        ("8.8.8.8", "8.8.8.80", false),
        ("[2606:4700::1111]", "2606:4700:0::1111", true),
        ("2606:4700::1111", "[2606:4700::1111]", true),
    ] {
        let rules = rules([HostLevel { allow: Some(vec![pattern(text)]), ..level("egress", None, &[]) }]);
        assert_eq!(rules.judge(host).is_ok(), meant, "{host} by {text}");
    }
}

#[test]
fn what_is_no_host_is_no_pattern() {
    for text in [
        "",
        "*",
        "*.",
        ".",
        "..",
        "a..b",
        "*.*.com",
        "a.*.com",
        "a*.com",
        "http://a.com",
        "a.com/",
        "a.com:80",
        "user@a.com",
        "a b.com",
        "*.1.2.3.4",
        "*.[::1]",
        "[::1",
        "256.1.1.1",
        "!a.com",
        "a.com\n",
        ".a.com",
    ] {
        assert!(HostPattern::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn the_key_that_refuses_is_named_and_what_mends_it() {
    let rules = rules([
        level("egress", Some(&["*.example.com", "example.org"]), &["bad.example.com"]),
        level("agents.list.main.egress", Some(&["a.example.com", "bad.example.com"]), &[]),
    ]);
    let said = |host: &str| rules.judge(host).unwrap_err().to_string();
    assert_eq!(rules.judge("a.example.com"), Ok(()));
    assert_eq!(said("evil.test"), "evil.test is not in egress.allowHosts; an operator can add it there");
    assert_eq!(
        said("example.org"),
        "example.org is not in agents.list.main.egress.allowHosts; an operator can add it there"
    );
    assert_eq!(
        said("BAD.example.com"),
        "bad.example.com is denied by egress.denyHosts (bad.example.com); only taking that entry out allows it"
    );
    assert_eq!(rules.judge("evil.test").unwrap_err().key().unwrap(), "egress.allowHosts");
    assert!(matches!(rules.judge("a b"), Err(HostRefusal::Unreadable { .. })));
}

#[test]
fn without_a_word_every_host_passes() {
    assert_eq!(HostRules::default().judge("example.com"), Ok(()));
    assert!(rules([level("egress", None, &[])]).is_empty());
    assert!(rules([level("egress", Some(&[]), &[])]).judge("example.com").is_err());
}

#[test]
fn a_list_is_narrowed_to_what_every_level_leaves() {
    let hosts = ["*.example.com", "pypi.org", "files.example.net"].map(pattern);
    let rules = rules([
        level("egress", Some(&["*.a.example.com", "pypi.org", "*.net"]), &["*.evil.net"]),
        level("w", None, &["pypi.org"]),
    ]);
    let list = rules.narrow_list(&hosts);
    assert_eq!(list, ["files.example.net", "pypi.org", "*.a.example.com", "!pypi.org", "!*.evil.net"]);
    let read = HostRules::default().and(HostLevel::of_list("sandbox", &list).unwrap());
    for (host, may) in [("x.a.example.com", true), ("x.example.com", false), ("pypi.org", false)] {
        assert_eq!(read.judge(host).is_ok(), may, "{host}");
    }
}

fn any_host() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "com", "org", "ü"]), 1..5)
        .prop_map(|labels| labels.join("."))
}

fn any_pattern() -> impl Strategy<Value = HostPattern> {
    (any_host(), any::<bool>())
        .prop_map(|(host, below)| pattern(&if below { format!("*.{host}") } else { host }))
}

fn any_level() -> impl Strategy<Value = HostLevel> {
    let patterns = || prop::collection::vec(any_pattern(), 0..4);
    (prop::option::of(patterns()), patterns()).prop_map(|(allow, deny)| HostLevel {
        key: "egress".to_owned(),
        allow,
        deny,
    })
}

fn any_rules() -> impl Strategy<Value = HostRules> {
    prop::collection::vec(any_level(), 0..4).prop_map(rules)
}

proptest! {
    #[test]
    fn no_level_widens_what_those_above_it_left(rules in any_rules(), more in any_level(), host in any_host()) {
        let wider = rules.judge(&host).is_ok();
        prop_assert!(wider || rules.and(more).judge(&host).is_err());
    }

    #[test]
    fn the_order_of_levels_changes_nothing(a in any_rules(), b in any_rules(), host in any_host()) {
        let one = a.clone().narrowed_by(&b).judge(&host).is_ok();
        prop_assert_eq!(one, b.clone().narrowed_by(&a).judge(&host).is_ok());
        prop_assert_eq!(one, a.judge(&host).is_ok() && b.judge(&host).is_ok());
    }

    #[test]
    fn one_more_denial_or_one_host_less_never_widens(
        base in any_level(), denied in any_pattern(), gone in any::<prop::sample::Index>(), host in any_host()
    ) {
        let before = rules([base.clone()]).judge(&host).is_ok();
        let mut with_denial = base.clone();
        with_denial.deny.push(denied);
        prop_assert!(before || rules([with_denial]).judge(&host).is_err());
        let mut with_less = base;
        if let Some(list) = with_less.allow.as_mut().filter(|list| !list.is_empty()) {
            list.remove(gone.index(list.len()));
        }
        prop_assert!(before || rules([with_less]).judge(&host).is_err());
    }

    #[test]
    fn however_a_host_is_spelled_it_is_judged_the_same(rules in any_rules(), host in any_host()) {
        let plain = rules.judge(&host).is_ok();
        for spelled in [host.to_uppercase(), format!("{host}."), host.replace('.', "。"), host.replace('a', "ａ")] {
            prop_assert_eq!(rules.judge(&spelled).is_ok(), plain, "{}", spelled);
        }
    }

    #[test]
    fn a_narrowed_list_means_exactly_what_the_list_and_the_rules_leave(
        rules in any_rules(), list in prop::collection::vec(any_pattern(), 0..4), host in any_host()
    ) {
        let own = HostRules::default().and(HostLevel { key: String::new(), allow: Some(list.clone()), deny: Vec::new() });
        let both = own.narrowed_by(&rules).judge(&host).is_ok();
        let read = HostLevel::of_list("sandbox", rules.narrow_list(&list)).unwrap();
        prop_assert_eq!(HostRules::default().and(read).judge(&host).is_ok(), both);
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}") {
        if let Ok(read) = HostPattern::parse(&text) {
            prop_assert_eq!(HostPattern::parse(&read.to_string()), Ok(read));
        }
    }
}
