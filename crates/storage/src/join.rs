//! Which waiting messages a run under way may take in. Pure, so that both backends decide alike.

use tidegate_protocol::{JoinMode, ReplyTarget, RunSpec};

use crate::accept::SessionChoice;
use crate::lease::Owner;

/// A run that waits in its session's queue, as far as joining depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joiner {
    pub join: Option<JoinMode>,
    /// Absent when this release cannot read it.
    pub reply: Option<ReplyTarget>,
    pub spec: Option<RunSpec>,
    /// Who accepted it.
    pub owner: Option<Owner>,
    pub choice: SessionChoice,
    /// It was tried before: its message may be in the log.
    pub begun: bool,
    /// Its budgets had no room for it.
    pub refused: bool,
}

/// The run under way that would take it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinHost {
    pub owner: Owner,
    /// Absent when this release cannot read them.
    pub reply: Option<ReplyTarget>,
    pub spec: Option<RunSpec>,
    /// When its log was last written to.
    pub written_at: Option<i64>,
}

impl Joiner {
    /// Whether the run takes it in now. What stays becomes a run of its own later; nothing is lost by that.
    pub fn joins(&self, mode: JoinMode, host: &JoinHost) -> bool {
        let wanted = match mode {
            JoinMode::Steer => self.join == Some(JoinMode::Steer),
            JoinMode::Note => matches!(self.join, Some(JoinMode::Steer | JoinMode::Note)),
            JoinMode::FollowUp => self.join.is_some(),
        };
        let same_log = match self.choice {
            SessionChoice::Current => true,
            SessionChoice::Fresh => false,
            SessionChoice::Since(time) => host.written_at.is_none_or(|written| written >= time),
        };
        // A caller waits in the process that accepted its request, and only that one can answer it.
        let answerable = self.reply != Some(ReplyTarget::Caller) || self.owner == Some(host.owner);
        wanted && same_log && answerable && self.is_served_by(host) && !self.begun && !self.refused
    }

    /// Whether the run's answer goes where this one's should, and the run may do no more than this one may.
    fn is_served_by(&self, host: &JoinHost) -> bool {
        let (Some(reply), Some(spec)) = (&self.reply, &self.spec) else { return false };
        let (Some(host_reply), Some(by)) = (&host.reply, &host.spec) else { return false };
        let (own, theirs) = (&spec.tools, &by.tools);
        let within = (own.allow.is_none() || own.allow == theirs.allow)
            && (own.root.is_none() || own.root == theirs.root)
            && (own.model || !theirs.model)
            && (theirs.unattended || !own.unattended);
        reply.is_reached_by(host_reply) && spec.shadow == by.shadow && spec.depth <= by.depth && within
    }
}

#[cfg(test)]
mod tests {
    use tidegate_protocol::{Limits, OutboundTarget};

    use super::*;

    fn owner(incarnation: i64) -> Owner {
        Owner { instance: "00000000-0000-7000-8000-000000000001".parse().unwrap(), incarnation }
    }

    fn spec() -> RunSpec {
        RunSpec::new("r", Vec::new(), Limits::new(1, 1))
    }

    fn steering() -> Joiner {
        Joiner {
            join: Some(JoinMode::Steer),
            reply: Some(ReplyTarget::Session),
            spec: Some(spec()),
            owner: Some(owner(1)),
            choice: SessionChoice::Current,
            begun: false,
            refused: false,
        }
    }

    fn host() -> JoinHost {
        JoinHost {
            owner: owner(1),
            reply: Some(ReplyTarget::Caller),
            spec: Some(spec()),
            written_at: Some(100),
        }
    }

    fn joins(joiner: &Joiner, mode: JoinMode) -> bool {
        joiner.joins(mode, &host())
    }

    #[test]
    fn each_is_read_at_its_time_and_all_of_them_at_the_end() {
        let joining = |join| Joiner { join, ..steering() };
        for (join, instead_of_a_tool, after_a_round, at_the_end) in [
            (Some(JoinMode::Steer), true, true, true),
            (Some(JoinMode::Note), false, true, true),
            (Some(JoinMode::FollowUp), false, false, true),
            (None, false, false, false),
        ] {
            assert_eq!(joins(&joining(join), JoinMode::Steer), instead_of_a_tool, "{join:?}");
            assert_eq!(joins(&joining(join), JoinMode::Note), after_a_round, "{join:?}");
            assert_eq!(joins(&joining(join), JoinMode::FollowUp), at_the_end, "{join:?}");
        }
    }

    #[test]
    fn a_message_of_another_log_or_another_process_or_without_room_stays_where_it_is() {
        for stays in [
            Joiner { choice: SessionChoice::Fresh, ..steering() },
            Joiner { choice: SessionChoice::Since(101), ..steering() },
            Joiner { reply: Some(ReplyTarget::Caller), owner: Some(owner(2)), ..steering() },
            Joiner { begun: true, ..steering() },
            Joiner { refused: true, ..steering() },
            Joiner { reply: None, ..steering() },
            Joiner { spec: None, ..steering() },
        ] {
            assert!(!joins(&stays, JoinMode::Steer), "{stays:?}");
        }
        for comes in [
            Joiner { choice: SessionChoice::Since(100), ..steering() },
            Joiner { reply: Some(ReplyTarget::Caller), ..steering() },
            Joiner { owner: Some(owner(2)), ..steering() },
        ] {
            assert!(joins(&comes, JoinMode::Steer), "{comes:?}");
        }
    }

    #[test]
    fn nobody_is_answered_elsewhere_than_where_they_asked() {
        let chat = |peer: &str, quoted: &str| ReplyTarget::Channel {
            channel: "local".parse().unwrap(),
            account_id: "a".to_owned(),
            target: OutboundTarget { peer_id: peer.to_owned(), thread_id: None },
            in_reply_to: Some(quoted.to_owned()),
        };
        let from = |reply: ReplyTarget| Joiner { reply: Some(reply), ..steering() };
        let to = |reply: ReplyTarget| JoinHost { reply: Some(reply), ..host() };
        let joins = |joiner: Joiner, host: JoinHost| joiner.joins(JoinMode::Steer, &host);
        assert!(joins(from(chat("ann", "1")), to(chat("ann", "2"))), "which message is quoted is no matter");
        assert!(!joins(from(chat("ann", "1")), to(chat("bob", "1"))));
        assert!(!joins(from(chat("ann", "1")), to(ReplyTarget::Caller)));
        assert!(!joins(from(chat("ann", "1")), to(ReplyTarget::Session)));
        assert!(joins(from(ReplyTarget::Session), to(chat("ann", "1"))));
    }

    #[test]
    fn no_message_is_worked_on_with_more_than_it_was_given() {
        let from = |change: fn(&mut RunSpec)| {
            let mut spec = spec();
            change(&mut spec);
            Joiner { spec: Some(spec), ..steering() }
        };
        let stay: [fn(&mut RunSpec); 6] = [
            |spec| spec.shadow = true,
            |spec| spec.depth = 1,
            |spec| spec.tools.allow = Some(vec!["read".to_owned()]),
            |spec| spec.tools.model = false,
            |spec| spec.tools.unattended = true,
            |spec| spec.tools.root = Some("/elsewhere".to_owned()),
        ];
        for change in stay {
            let joiner = from(change);
            assert!(!joiner.joins(JoinMode::Steer, &host()), "{joiner:?}");
            let same = JoinHost { spec: joiner.spec.clone(), ..host() };
            assert!(joiner.joins(JoinMode::Steer, &same), "{joiner:?}");
        }
        let mut narrow = host();
        narrow.spec.as_mut().unwrap().tools.allow = Some(Vec::new());
        assert!(steering().joins(JoinMode::Steer, &narrow), "less than it was given is no danger");
    }
}
