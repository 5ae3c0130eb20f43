//! `sandbox explain`: how programs are held, and by which key. Nothing is started.

use std::process::ExitCode;

use serde_json::json;
use tidegate_policy::{Network, Profile};
use tidegate_runtime::catalogue::Text;

use super::{Known, access, limits, network};
use crate::Outcome;
use crate::app::App;
use crate::arguments::{Command, Parsed};
use crate::commands::tools::fitted;
use crate::output::{complain, print, print_json, print_line, printable};
use crate::sandboxes::sandboxes;
use crate::texts::sandbox as words;

pub(in crate::commands) fn explain(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let Known { home, scope, confinement, keys, settings } = Known::new(app, parsed)?;
    let withheld = match confinement.network {
        Network::Allowlist(_) => settings.withheld_hosts(&scope),
        _ => Vec::new(),
    };
    if parsed.has("json") {
        print_json(&json!({
            "agent": scope.agent,
            "confinement": confinement,
            "withheld": withheld.iter().map(|one| json!({"host": one.host(), "by": one.key()})).collect::<Vec<_>>(),
            "by": {
                "profile": keys.profile, "place": keys.place, "access": keys.access,
                "network": keys.network, "limits": keys.limits,
            },
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let row = |title: Text, value: String, by: &str| {
        vec![app.output.dim(app.say(title)), printable(&value), by.to_owned()]
    };
    let hidden: Vec<_> = confinement.hidden.iter().map(|path| path.display().to_string()).collect();
    let mut rows = vec![
        app.say(words::EXPLAIN_TITLES).split(',').map(|title| app.output.dim(title)).collect(),
        row(words::EXPLAIN_PROFILE, confinement.profile.name().to_owned(), &keys.profile),
        row(words::EXPLAIN_FOLDER, confinement.folder.display().to_string(), &keys.access),
    ];
    if confinement.profile == Profile::None {
        print(&fitted(app, &rows))?;
        print_line(app.say(words::BARE_NOTE))?;
        return Ok(ExitCode::SUCCESS);
    }
    rows.extend([
        row(words::EXPLAIN_ACCESS, access(app, &confinement).to_owned(), &keys.access),
        row(words::EXPLAIN_NETWORK, network(app, &confinement), &keys.network),
    ]);
    rows.extend(withheld.iter().map(|refusal| {
        row(words::EXPLAIN_NOT, refusal.host().to_owned(), &refusal.key().unwrap_or_default())
    }));
    rows.extend([
        row(words::EXPLAIN_LIMITS, limits(app, &confinement).join(", "), &keys.limits),
        row(words::EXPLAIN_PLACE, confinement.place.clone(), &keys.place),
        row(words::EXPLAIN_HIDDEN, hidden.join(", "), ""),
    ]);
    print(&fitted(app, &rows))?;
    if let Err(why) = sandboxes(app, &home, &settings)?.check(&confinement) {
        complain(&app.fill(words::CANNOT_BE, &[("why", &why)]));
    }
    Ok(ExitCode::SUCCESS)
}
