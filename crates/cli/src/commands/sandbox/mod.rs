//! `sandbox`: what holds the programs that agents start.

mod explain;
mod refusals;
mod status;
mod test;

use std::path::{Path, PathBuf};

use tidegate_engine::{ConfinementKeys, Home, Settings, keys_in};
use tidegate_policy::{Access, Confinement, Network, Profile, Resource};
use tidegate_protocol::{ErrorCode, Scope, SessionKey};

pub(super) use explain::explain;
pub(super) use status::status;
pub(super) use test::test;

use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::failure::{Failure, With as _};
use crate::output::printable;
use crate::texts::sandbox as words;
use crate::texts::tools::NO_SUCH_FOLDER;

/// How the programs of one conversation are held.
struct Known {
    home: Home,
    settings: Settings,
    scope: Scope,
    confinement: Confinement,
    keys: ConfinementKeys,
}

impl Known {
    fn new(app: &App, parsed: &Parsed) -> Result<Self, Failure> {
        let home = home_of(parsed)?;
        let loaded = app.config(&home)?;
        let settings = Settings::new(&loaded);
        let scope = settings.scope(parsed.value("agent"))?;
        let named = parsed.value("session").unwrap_or("main");
        let session = SessionKey::named(scope.clone(), named).to_string();
        let named = parsed.value("root").filter(|_| !settings.sees_no_workspace(&scope, &session));
        let folder = match named {
            Some(root) => real(Path::new(root))?,
            None => settings.working_folder(&scope, &session, &home),
        };
        let mut hidden = vec![home.root().to_owned()];
        hidden.extend(keys_in(&folder, app.env.get("HOME")));
        let confinement = settings.confinement(&scope, &session, &folder, hidden);
        let keys = settings.confinement_keys(&scope, &session);
        Ok(Self { home, settings, scope, confinement, keys })
    }
}

/// The profile that somebody named.
fn named_profile(command: &'static Command, parsed: &Parsed) -> Result<Option<Profile>, Failure> {
    let Some(name) = parsed.value("profile") else { return Ok(None) };
    let profile = Profile::ALL.into_iter().find(|profile| profile.name() == name);
    profile.map(Some).ok_or_else(|| {
        let message = words::INVALID_PROFILE.with(&[("value", &name)]);
        Failure::new(ErrorCode::InvalidValue, message).with_usage(command)
    })
}

/// A folder as it really is.
fn real(folder: &Path) -> Result<PathBuf, Failure> {
    folder.canonicalize().ok().filter(|folder| folder.is_dir()).ok_or_else(|| {
        let message = NO_SUCH_FOLDER.with(&[("path", &printable(&folder.to_string_lossy()))]);
        Failure::new(ErrorCode::InvalidValue, message)
    })
}

fn access(app: &App, confinement: &Confinement) -> &'static str {
    app.say(match confinement.access {
        Access::ReadOnly => words::ACCESS_RO,
        Access::ReadWrite => words::ACCESS_RW,
    })
}

fn network(app: &App, confinement: &Confinement) -> String {
    match &confinement.network {
        Network::None => app.say(words::NETWORK_NONE).to_owned(),
        Network::Full => app.say(words::NETWORK_FULL).to_owned(),
        Network::Allowlist(hosts) => {
            let (denied, allowed): (Vec<&str>, Vec<&str>) =
                hosts.iter().map(String::as_str).partition(|host| host.starts_with('!'));
            let denied: Vec<&str> = denied.iter().map(|host| host.trim_start_matches('!')).collect();
            let text = match (allowed.is_empty(), denied.is_empty()) {
                (true, _) => words::NETWORK_NO_HOSTS,
                (false, true) => words::NETWORK_HOSTS,
                (false, false) => words::NETWORK_HOSTS_BUT,
            };
            app.fill(text, &[("hosts", &allowed.join(", ")), ("denied", &denied.join(", "))])
        }
    }
}

fn limits(app: &App, confinement: &Confinement) -> [String; 3] {
    let limits = confinement.limits;
    [
        amount(app, Resource::Memory, limits.memory),
        amount(app, Resource::Processes, limits.processes.into()),
        amount(app, Resource::Disk, limits.disk),
    ]
}

fn amount(app: &App, of: Resource, limit: u64) -> String {
    let megabytes = limit >> 20;
    match of {
        Resource::Memory => app.fill(words::MOST_MEMORY, &[("n", &megabytes)]),
        Resource::Processes => app.fill(words::MOST_PROCESSES, &[("n", &limit)]),
        Resource::Disk => app.fill(words::MOST_DISK, &[("n", &megabytes)]),
    }
}
