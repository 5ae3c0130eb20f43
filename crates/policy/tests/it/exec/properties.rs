//! What holds for every text and every policy.

use proptest::prelude::*;
use tidegate_policy::exec::{Ask, ExecPolicy, Plan, Security, destructive, judge, suggestion};
use tidegate_policy::tools::Verdict;

use super::corpus::scripts;
use super::scene::{command, plan, policy, rules, try_plan};

const SECURITIES: [Security; 3] = [Security::Deny, Security::Allowlist, Security::Full];
const ASKS: [Ask; 3] = [Ask::Off, Ask::OnMiss, Ask::Always];

/// Text that comes close to commands.
fn text() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        "\\PC{0,6}",
        "[a-z ]{1,6}",
        prop::sample::select(scripts()),
        prop::sample::select(vec![
            "$(", "`", "\"", "'", "<<EOF\n", "(", ")", "{", "}", ";", "|", "&", "\\", "\n", "rm -rf /",
            "sh -c ", "$'",
        ])
        .prop_map(str::to_owned),
    ];
    prop::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn no_text_makes_it_panic(text in text()) {
        if let Ok(plan) = try_plan(&text) {
            let _ = judge(&plan, &policy(), &[]);
            let _ = destructive(&plan);
            let _ = suggestion(&plan, Some(1));
        }
    }

    #[test]
    fn what_was_understood_says_the_same_when_it_is_quoted_and_read_again(text in text()) {
        let Some(first) = understood(&text) else { return Ok(()) };
        let quoted = |word: &String| format!("'{}'", word.replace('\'', "'\\''"));
        let line = |argv: &[String]| argv.iter().map(quoted).collect::<Vec<_>>().join(" ");
        for launch in first.launches() {
            let again = plan(&line(&launch.argv));
            prop_assert!(again.opaque().is_none(), "{:?}", again.opaque());
            prop_assert_eq!(again.launches().collect::<Vec<_>>(), vec![launch]);
        }
    }

    #[test]
    fn what_was_understood_had_no_expansion_outside_quotes(text in text()) {
        if understood(&text).is_none() {
            return Ok(());
        }
        let bare = without_quoted(&text);
        prop_assert!(!bare.contains(['$', '`', '*', '?', '[', '{', '}', '(', ')', '<', '>']), "{bare:?}");
    }

    #[test]
    fn judging_is_strict_where_the_policy_is(script in prop::sample::select(scripts()), ask in 0..3usize) {
        let verdict = |security, ask| decided(&script, security, ask, true);
        for (strict, lax) in [(Security::Deny, Security::Allowlist), (Security::Allowlist, Security::Full)] {
            prop_assert!(verdict(strict, ASKS[ask]) >= verdict(lax, ASKS[ask]));
        }
    }
}

fn understood(text: &str) -> Option<Plan> {
    try_plan(text).ok().filter(|plan| plan.opaque().is_none())
}

/// Leaves out what single quotes and backslashes protect.
fn without_quoted(text: &str) -> String {
    let mut bare = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                characters.next();
            }
            '\'' => while characters.next().is_some_and(|inside| inside != '\'') {},
            '"' => {
                while let Some(inside) = characters.next() {
                    match inside {
                        '"' => break,
                        '\\' => {
                            characters.next();
                        }
                        '$' | '`' => bare.push(inside),
                        _ => {}
                    }
                }
            }
            other => bare.push(other),
        }
    }
    bare
}

fn decided(script: &str, security: Security, ask: Ask, confined: bool) -> Verdict {
    let policy = ExecPolicy { security, ask, confined, ..policy() };
    let saved = rules(vec![command("/usr/bin/git", &["status"], false), command("/usr/bin/echo", &[], true)]);
    judge(&plan(script), &policy, &saved).verdict
}

#[test]
fn asking_more_often_never_allows_more() {
    for script in scripts() {
        for security in SECURITIES {
            for (lax, strict) in [(Ask::Off, Ask::OnMiss), (Ask::OnMiss, Ask::Always)] {
                let strictly = decided(&script, security, strict, true);
                let laxly = decided(&script, security, lax, true);
                assert!(strictly != Verdict::Allow || laxly == Verdict::Allow, "{script:?} {security:?}");
            }
        }
    }
}

#[test]
fn without_confinement_nothing_is_allowed_and_nothing_is_laxer() {
    for script in scripts() {
        for security in SECURITIES {
            for ask in ASKS {
                let bare = decided(&script, security, ask, false);
                assert_ne!(bare, Verdict::Allow, "{script:?}");
                assert!(bare >= decided(&script, security, ask, true), "{script:?}");
            }
        }
    }
}
