//! `auth import`: credentials out of another program's file.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use tidegate_protocol::ErrorCode;
use tidegate_secrets::{Profile, ProfileId, SecretsError, import as read};

use super::{store, tell_notices};
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, Message, With as _};
use crate::output::{print_json, print_line};
use crate::{Outcome, texts};

/// Far more than any such file has.
const LARGEST: u64 = 4 << 20;

pub(in crate::commands) fn import(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let file = &parsed.arguments[0];
    let text = contents(file)?;
    let profiles = profiles_in(&text)?;
    if profiles.is_empty() {
        let message = texts::NOTHING_TO_IMPORT.with(&[("file", file)]);
        return Err(Failure::new(ErrorCode::InvalidValue, message));
    }
    let store = store(app, &home, &loaded)?;
    let added = store.adopt(&profiles)?;
    if let Some(active) = active_in(&text)
        && added.contains(&active)
        && store.list()?.active.is_none()
    {
        store.set_active(&active)?;
    }
    tell_notices(app, &store);
    let skipped: Vec<&ProfileId> =
        profiles.iter().map(|profile| &profile.id).filter(|id| !added.contains(id)).collect();
    if parsed.has("json") {
        let names =
            |ids: &mut dyn Iterator<Item = &ProfileId>| ids.map(ToString::to_string).collect::<Vec<_>>();
        print_json(&json!({
            "imported": names(&mut added.iter()), "skipped": names(&mut skipped.into_iter()),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for id in &added {
        print_line(&app.fill(texts::PROFILE_IMPORTED, &[("id", id)]))?;
    }
    for id in skipped {
        print_line(&app.fill(texts::PROFILE_NOT_IMPORTED, &[("id", id)]))?;
    }
    print_line(&app.fill(texts::IMPORT_KEEPS_FILE, &[("file", file)]))?;
    Ok(ExitCode::SUCCESS)
}

fn contents(file: &str) -> Result<String, Failure> {
    let unreadable = |cause: &dyn std::fmt::Display| {
        Failure::new(ErrorCode::InvalidValue, Message::plain(format!("{file}: {cause}")))
    };
    let open = File::open(Path::new(file)).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Failure::new(ErrorCode::NotFound, Message::plain(format!("{file}: {error}")))
        }
        _ => unreadable(&error),
    })?;
    let mut text = String::new();
    open.take(LARGEST).read_to_string(&mut text).map_err(|error| unreadable(&error))?;
    Ok(text)
}

/// In whichever of the known forms it is.
fn profiles_in(text: &str) -> Result<Vec<Profile>, SecretsError> {
    match read::lainclaw(text) {
        Ok(profiles) if !profiles.is_empty() => Ok(profiles),
        _ => read::openclaw(text),
    }
}

/// The profile that the other program used.
fn active_in(text: &str) -> Option<ProfileId> {
    let root: Value = serde_json::from_str(text).ok()?;
    root["activeProfileId"].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_programs_files_are_told_apart_by_what_is_in_them() {
        let theirs = r#"{"version":1,"activeProfileId":"openai-codex/a","profiles":{"openai-codex/a":
            {"credential":{"access":"x","refresh":"y","expires":5}}}}"#;
        let other = r#"{"version":1,"profiles":{"anthropic:work":{"type":"api_key","provider":"anthropic","key":"k"}}}"#;
        let older = r#"{"groq":{"type":"api_key","key":"k"}}"#;
        let names = |text| {
            let profiles = profiles_in(text).unwrap();
            profiles.into_iter().map(|profile| profile.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(theirs), ["openai-codex/a"]);
        assert_eq!(names(other), ["anthropic/work"]);
        assert_eq!(names(older), ["groq/default"]);
        assert_eq!(active_in(theirs).unwrap().as_str(), "openai-codex/a");
        assert!(profiles_in("[]").is_err());
    }
}
