//! When conversations begin anew by themselves, and by which words.

use tidegate_config::schema::{GroupCommands, ResetDuringRun, ResetMode as Mode, ResetOverride};
use tidegate_protocol::{Place, SessionKey};
use tidegate_routing::{Conversation, ResetMode, ResetPolicy, ResetRule, ResetRules};
use tidegate_runtime::Zone;
use tidegate_storage::SessionChoice;

use super::Settings;

impl Settings {
    /// When this conversation begins anew by itself. The owner's own ones, `main` and those with a name, last unless
    /// somebody says otherwise; those on networks begin anew every day.
    pub fn reset_policy(&self, key: &SessionKey) -> ResetPolicy {
        let session = &self.config.session;
        let unsaid = session.reset.is_none()
            && if key.thread.is_some() { session.reset_by_type.thread } else { session.reset_by_type.dm }
                .is_none();
        if unsaid && matches!(key.place, Place::Main | Place::Named { .. }) {
            return ResetPolicy::default();
        }
        self.reset_rules().policy(key)
    }

    /// Which log a message that comes now belongs to.
    pub(crate) fn log_of_now(&self, key: &SessionKey, now: i64) -> SessionChoice {
        self.reset_boundary(key, now).map_or(SessionChoice::Current, SessionChoice::Since)
    }

    /// Whether a conversation that begins anew ends what is under way in it.
    pub(crate) fn reset_aborts(&self) -> bool {
        self.config.session.reset_during_run == ResetDuringRun::Abort
    }

    /// Whether a member of a group may change its conversation by commands.
    pub(crate) fn members_command(&self) -> bool {
        self.config.session.group_commands == GroupCommands::Everyone
    }

    /// A conversation last used before this instant begins anew now; nothing when it never does by itself.
    pub fn reset_boundary(&self, key: &SessionKey, now: i64) -> Option<i64> {
        self.reset_policy(key).boundary(now, self.reset_zone().rules())
    }

    /// Words that begin a conversation anew, beside the commands.
    pub fn reset_triggers(&self) -> &[String] {
        &self.config.session.reset_triggers
    }

    /// Where the hour of a daily reset is told. A zone that the system does not know was refused when the file was read.
    fn reset_zone(&self) -> Zone {
        let named = self.config.session.timezone.as_deref().and_then(Zone::find);
        named.unwrap_or_else(|| self.zone.clone())
    }

    fn reset_rules(&self) -> ResetRules {
        let session = &self.config.session;
        let general = session.reset.as_ref().map_or_else(ResetRule::default, |reset| ResetRule {
            mode: Some(mode(reset.mode)),
            at_hour: Some(reset.at_hour),
            idle_minutes: reset.idle_minutes,
        });
        let types = [
            (Conversation::Direct, session.reset_by_type.dm),
            (Conversation::Group, session.reset_by_type.group),
            (Conversation::Thread, session.reset_by_type.thread),
        ];
        let by_type = types.into_iter().filter_map(|(kind, reset)| Some((kind, rule(&reset?))));
        let by_channel = session.reset_by_channel.iter().map(|(name, reset)| (name.clone(), rule(reset)));
        ResetRules { general, by_type: by_type.collect(), by_channel: by_channel.collect() }
    }
}

fn rule(reset: &ResetOverride) -> ResetRule {
    let ResetOverride { mode: named, at_hour, idle_minutes } = *reset;
    ResetRule { mode: named.map(mode), at_hour, idle_minutes }
}

fn mode(mode: Mode) -> ResetMode {
    match mode {
        Mode::Daily => ResetMode::Daily,
        Mode::Idle => ResetMode::Idle,
        Mode::Off => ResetMode::Off,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tidegate_config::schema::Config;
    use tidegate_protocol::Scope;

    use super::*;

    /// 2026-11-16T23:30Z.
    const LATE: i64 = 1_794_871_800_000;
    const HOUR: i64 = 3_600_000;

    fn settings(session: &Value) -> Settings {
        let config: Config = serde_json::from_value(json!({ "session": session })).unwrap();
        Settings { config: Box::new(config), ..Settings::default() }
    }

    fn key(place: Place) -> SessionKey {
        SessionKey { scope: Scope::personal("main".parse().unwrap()), place, thread: None }
    }

    fn group(channel: &str) -> SessionKey {
        key(Place::Group { channel: channel.parse().unwrap(), id: "C1".to_owned() })
    }

    fn policy(daily_hour: Option<u8>, idle_minutes: Option<u32>) -> ResetPolicy {
        ResetPolicy { daily_hour, idle_minutes }
    }

    #[test]
    fn without_a_word_about_it_a_conversation_on_a_network_lasts_until_four() {
        let settings = settings(&json!({}));
        assert_eq!(settings.reset_policy(&group("slack")), policy(Some(4), None));
        assert_eq!(settings.reset_boundary(&group("slack"), LATE), Some(LATE - 19 * HOUR - HOUR / 2));
        assert_eq!(settings.reset_policy(&key(Place::Main)), ResetPolicy::default());
    }

    #[test]
    fn a_conversation_with_a_name_of_its_own_lasts_unless_somebody_says_otherwise() {
        let work = key(Place::Named { name: "work".to_owned() });
        assert_eq!(settings(&json!({})).reset_policy(&work), ResetPolicy::default());
        assert_eq!(settings(&json!({})).log_of_now(&work, LATE), SessionChoice::Current);
        for said in [json!({"reset": {}}), json!({"resetByType": {"dm": {}}})] {
            assert_eq!(settings(&said).reset_policy(&work), policy(Some(4), None), "{said}");
        }
        let about_groups = json!({"resetByType": {"group": {}, "thread": {"mode": "idle"}}});
        assert_eq!(settings(&about_groups).reset_policy(&work), ResetPolicy::default());
        let thread = SessionKey { thread: Some("1".to_owned()), ..work };
        assert_eq!(settings(&about_groups).reset_policy(&thread), policy(None, Some(60)));
    }

    #[test]
    fn a_conversation_of_a_run_with_another_never_begins_anew_by_itself() {
        let sub = key(Place::Sub { id: "1".to_owned() });
        assert_eq!(
            settings(&json!({"reset": {"mode": "idle"}})).log_of_now(&sub, LATE),
            SessionChoice::Current
        );
    }

    #[test]
    fn what_is_written_about_kinds_and_networks_is_followed() {
        let settings = settings(&json!({
            "reset": {"atHour": 6, "idleMinutes": 90},
            "resetByType": {"group": {"mode": "idle", "idleMinutes": 5}, "thread": {"mode": "off"}},
            "resetByChannel": {"slack": {"mode": "daily"}},
        }));
        assert_eq!(settings.reset_policy(&key(Place::Main)), policy(Some(6), Some(90)));
        assert_eq!(settings.reset_policy(&group("discord")), policy(None, Some(5)));
        assert_eq!(settings.reset_policy(&group("slack")), policy(Some(6), Some(5)));
        let thread = SessionKey { thread: Some("1".to_owned()), ..group("discord") };
        assert_eq!(settings.reset_policy(&thread), ResetPolicy::default());
        assert_eq!(settings.reset_boundary(&thread, LATE), None);
    }

    #[test]
    fn silence_without_minutes_is_an_hour() {
        let settings = settings(&json!({"reset": {"mode": "idle"}}));
        assert_eq!(settings.reset_policy(&key(Place::Main)), policy(None, Some(60)));
        assert_eq!(settings.reset_boundary(&key(Place::Main), LATE), Some(LATE - HOUR));
    }

    #[test]
    fn the_hour_is_told_in_the_zone_of_the_sessions_before_that_of_the_budgets() {
        // Without a list of zones there is nothing to tell apart.
        let Some(shanghai) = Zone::find("Asia/Shanghai") else { return };
        let midnight = json!({"reset": {"atHour": 0}, "timezone": "Asia/Shanghai"});
        let boundary = shanghai.start_of_day(LATE, 0);
        assert_eq!(settings(&midnight).reset_boundary(&key(Place::Main), LATE), Some(boundary));
        let of_budgets = Settings { zone: shanghai, ..settings(&json!({"reset": {"atHour": 0}})) };
        assert_eq!(of_budgets.reset_boundary(&key(Place::Main), LATE), Some(boundary));
        assert_ne!(
            settings(&json!({"reset": {"atHour": 0}})).reset_boundary(&key(Place::Main), LATE),
            Some(boundary)
        );
    }
}
