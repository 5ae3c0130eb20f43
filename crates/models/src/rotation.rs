//! In which order a provider's credentials are tried. Pure.

use crate::cooldown::Standing;

/// What a credential is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CredentialKind {
    /// Renewed by itself: first, because it costs its owner nothing extra.
    Login,
    Token,
    Key,
    /// From a variable of the environment.
    Environment,
    /// From the configuration file.
    Configured,
    /// The server asks for none.
    None,
}

/// A credential that could be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub profile_id: String,
    pub kind: CredentialKind,
    /// When it was last stored, in milliseconds since the epoch; 0 where nobody knows.
    pub changed_at: i64,
    /// Its owner prefers it to the provider's others.
    pub chosen: bool,
}

impl Candidate {
    pub(crate) fn new(profile_id: String, kind: CredentialKind) -> Self {
        Self { profile_id, kind, changed_at: 0, chosen: false }
    }
}

/// What is said about the order.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wishes<'a> {
    /// This one and no other.
    pub(crate) only: Option<&'a str>,
    /// These in this order, and no others.
    pub(crate) order: Option<&'a [String]>,
}

/// The candidates in the order to try them: what somebody asked for, else by kind and least recently used. Those that
/// are cooling down come last, the soonest free first; whoever insists on one gets that one, cooling or not.
pub(crate) fn order<'a>(
    candidates: &'a [Candidate],
    wishes: Wishes<'_>,
    standing: impl Fn(&Candidate) -> Standing,
    now: i64,
) -> Vec<&'a Candidate> {
    if let Some(only) = wishes.only {
        return candidates.iter().filter(|candidate| candidate.profile_id == only).collect();
    }
    let mut chosen: Vec<&Candidate> = if let Some(order) = wishes.order {
        let find = |id: &String| candidates.iter().find(|candidate| candidate.profile_id == *id);
        order.iter().filter_map(find).collect()
    } else {
        let mut all: Vec<&Candidate> = candidates.iter().collect();
        all.sort_by_key(|candidate| (candidate.kind, standing(candidate).last_used_at));
        all
    };
    chosen.sort_by_key(|candidate| !candidate.chosen);
    chosen.sort_by_key(|candidate| {
        let standing = standing(candidate);
        if standing.is_cooling(now) { standing.until() } else { i64::MIN }
    });
    chosen
}

/// Of candidates in their order those to try now: the free ones, or else, where `insist` says so or nobody else can be asked
/// (`last_hope`) and it has rested for a moment, the first that is cooling down.
pub(crate) fn to_try(
    ordered: &[&Candidate],
    standing: impl Fn(&Candidate) -> Standing,
    now: i64,
    insist: bool,
    last_hope: bool,
) -> Vec<Candidate> {
    let mut free = ordered.iter().filter(|candidate| !standing(candidate).is_cooling(now)).peekable();
    if free.peek().is_some() {
        return free.map(|candidate| (*candidate).clone()).collect();
    }
    let probed = |candidate: &&&Candidate| insist || last_hope && standing(candidate).may_probe(now);
    ordered.iter().find(probed).map(|candidate| (*candidate).clone()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn candidate(id: &str, kind: CredentialKind) -> Candidate {
        Candidate::new(id.to_owned(), kind)
    }

    fn ids(candidates: &[Candidate], wishes: Wishes<'_>, standings: &[(&str, Standing)]) -> Vec<String> {
        let standings: HashMap<&str, Standing> = standings.iter().cloned().collect();
        let of =
            |candidate: &Candidate| standings.get(candidate.profile_id.as_str()).cloned().unwrap_or_default();
        order(candidates, wishes, of, 1000)
            .into_iter()
            .map(|candidate| candidate.profile_id.clone())
            .collect()
    }

    fn used(at: i64) -> Standing {
        Standing { last_used_at: at, ..Standing::default() }
    }

    fn cooling(until: i64) -> Standing {
        Standing { cooldown_until: until, ..Standing::default() }
    }

    fn four() -> Vec<Candidate> {
        use CredentialKind::{Key, Login, Token};
        vec![candidate("k1", Key), candidate("k2", Key), candidate("t", Token), candidate("o", Login)]
    }

    #[test]
    fn without_a_wish_logins_come_first_and_equals_take_turns() {
        assert_eq!(ids(&four(), Wishes::default(), &[("k1", used(9))]), ["o", "t", "k2", "k1"]);
        assert_eq!(ids(&four(), Wishes::default(), &[("k2", used(9))]), ["o", "t", "k1", "k2"]);
    }

    #[test]
    fn a_named_order_holds_and_leaves_the_others_out() {
        let order = ["k2".to_owned(), "gone".to_owned(), "o".to_owned()];
        let wishes = Wishes { order: Some(&order), ..Wishes::default() };
        assert_eq!(ids(&four(), wishes, &[("k2", used(9))]), ["k2", "o"]);
    }

    #[test]
    fn what_is_cooling_down_comes_last_the_soonest_free_first() {
        let standings = [("o", cooling(5000)), ("t", cooling(2000)), ("k1", cooling(900))];
        assert_eq!(ids(&four(), Wishes::default(), &standings), ["k1", "k2", "t", "o"]);
    }

    #[test]
    fn the_chosen_one_comes_first_unless_it_is_cooling_down() {
        let (mut four, wishes) = (four(), Wishes::default());
        four[1].chosen = true;
        assert_eq!(ids(&four, wishes, &[])[0], "k2");
        assert_eq!(ids(&four, wishes, &[("k2", cooling(5000))])[3], "k2");
    }

    #[test]
    fn whoever_insists_on_one_gets_that_one_only() {
        let wishes = Wishes { only: Some("k2"), ..Wishes::default() };
        assert_eq!(ids(&four(), wishes, &[("k2", cooling(5000))]), ["k2"]);
        assert!(ids(&four(), Wishes { only: Some("gone"), ..Wishes::default() }, &[]).is_empty());
    }

    #[test]
    fn who_is_cooling_down_is_asked_only_if_nobody_else_can_be() {
        let all = [candidate("a", CredentialKind::Key), candidate("b", CredentialKind::Key)];
        let ordered: Vec<&Candidate> = all.iter().collect();
        let cooling = Standing { cooldown_until: 90_000, last_failure_at: 10_000, ..Standing::default() };
        let try_now = |both: bool, now, insist, last_hope| {
            let of = |candidate: &Candidate| {
                if both || candidate.profile_id == "a" { cooling.clone() } else { Standing::default() }
            };
            let tried = to_try(&ordered, of, now, insist, last_hope);
            tried.into_iter().map(|candidate| candidate.profile_id).collect::<Vec<_>>()
        };
        assert_eq!(try_now(false, 11_000, false, true), ["b"]);
        assert!(try_now(true, 11_000, false, true).is_empty());
        assert_eq!(try_now(true, 30_000, false, true), ["a"]);
        assert!(try_now(true, 30_000, false, false).is_empty());
        assert_eq!(try_now(true, 11_000, true, false), ["a"]);
    }

    proptest! {
        #[test]
        fn nobody_is_lost_or_doubled_and_no_free_one_waits_behind_a_cooling_one(
            facts in prop::collection::vec((0u8..4, 0i64..5, 0i64..3000), 0..8)
        ) {
            use CredentialKind::{Environment, Key, Login, Token};
            let kinds = [Login, Token, Key, Environment];
            let all: Vec<Candidate> = facts.iter().enumerate()
                .map(|(at, (kind, ..))| candidate(&at.to_string(), kinds[usize::from(*kind)])).collect();
            let of = |candidate: &Candidate| {
                let (_, used, until) = facts[candidate.profile_id.parse::<usize>().unwrap()];
                Standing { last_used_at: used, cooldown_until: until, ..Standing::default() }
            };
            let ordered = order(&all, Wishes::default(), of, 1000);
            prop_assert_eq!(ordered.len(), all.len());
            let states: Vec<bool> = ordered.iter().map(|candidate| of(candidate).is_cooling(1000)).collect();
            prop_assert!(states.is_sorted());
            let free: Vec<_> = ordered.iter().filter(|candidate| !of(candidate).is_cooling(1000))
                .map(|candidate| (candidate.kind, of(candidate).last_used_at)).collect();
            prop_assert!(free.is_sorted());
        }
    }
}
