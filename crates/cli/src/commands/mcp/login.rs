//! `mcp login` and `mcp logout`: a person's login at a server that runs elsewhere.

use std::process::ExitCode;

use serde_json::json;
use tidegate_engine::Settings;
use tidegate_mcp::{AddressSpec, Reach, sign_in};
use tidegate_protocol::ErrorCode;
use tidegate_runtime::{SystemClock, iso_timestamp};

use super::unknown;
use crate::Outcome;
use crate::app::{App, home_of};
use crate::arguments::{Command, Parsed};
use crate::commands::auth::account::Terminal;
use crate::commands::block_on;
use crate::failure::{Failure, Message, With as _};
use crate::output::{print_json, print_line, printable};
use crate::texts::mcp as words;
use crate::toolbox::{login_client, mcp_logins};

pub(in crate::commands) fn login(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let name = parsed.arguments[0].as_str();
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let settings = Settings::new(&loaded);
    let spec = settings.mcp_server_named(name, &home).ok_or_else(|| unknown(app, &loaded, name))?;
    let Reach::Http(address) = spec.reach else {
        let message = words::PROGRAM_NEEDS_NONE.with(&[("name", &name)]);
        return Err(Failure::new(ErrorCode::InvalidValue, message));
    };
    refuse_header(app, name, &address)?;
    let mut more: Vec<String> =
        parsed.values("scope").flat_map(str::split_ascii_whitespace).map(str::to_owned).collect();
    let (client, logins) = (login_client(&settings)?, mcp_logins(&home, &settings)?);
    if !more.is_empty() {
        // More is wanted, so what there is stays. A login that cannot be read has nothing to keep.
        let earlier = logins.summary(name, &address.url).ok().flatten().map(|login| login.scope);
        more.extend(earlier.iter().flat_map(|scope| scope.split_ascii_whitespace()).map(str::to_owned));
    }
    let terminal = Terminal::new(app);
    let credential = block_on(async {
        let signed = sign_in(&client, &address, &more, &terminal, &SystemClock).await;
        signed.map_err(|error| {
            let failure = Failure::new(ErrorCode::LoginFailed, Message::plain(printable(&error.to_string())));
            failure.with_hint(words::BEGIN_AGAIN.with(&[("program", &app.program), ("name", &name)]))
        })
    })?;
    let saved = logins.save(name, credential)?;
    let (issuer, scope) = (printable(&saved.issuer), printable(&saved.scope));
    let ends = iso_timestamp(saved.expires_at);
    if parsed.has("json") {
        print_json(&json!({
            "ok": true, "name": name, "issuer": saved.issuer, "scope": saved.scope,
            "expiresAt": ends, "renewable": saved.renewable,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    print_line(
        &app.fill(words::SIGNED_IN, &[("name", &name), ("issuer", &issuer), ("program", &app.program)]),
    )?;
    if !scope.is_empty() {
        print_line(&app.fill(words::MAY_USE, &[("scope", &scope)]))?;
    }
    if !saved.renewable {
        print_line(&app.fill(words::NOT_RENEWED, &[("at", &ends)]))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A login that would never be used is not asked for.
fn refuse_header(app: &App, name: &str, address: &AddressSpec) -> Result<(), Failure> {
    if !address.has_own_authorization() {
        return Ok(());
    }
    let failure = Failure::new(ErrorCode::InvalidValue, words::HEADER_STANDS.with(&[("name", &name)]));
    Err(failure.with_hint(words::HEADER_REMOVE.with(&[("program", &app.program), ("name", &name)])))
}

pub(in crate::commands) fn logout(app: &App, _command: &'static Command, parsed: &Parsed) -> Outcome {
    let name = parsed.arguments[0].as_str();
    let home = home_of(parsed)?;
    let loaded = app.config(&home)?;
    let settings = Settings::new(&loaded);
    // A server that was removed may have left its login behind.
    let was_there = block_on(async { Ok(mcp_logins(&home, &settings)?.forget(name).await?) })?;
    if !was_there {
        let message = words::NOT_SIGNED_IN.with(&[("name", &printable(name))]);
        return Err(Failure::new(ErrorCode::NotFound, message));
    }
    if parsed.has("json") {
        print_json(&json!({ "ok": true, "name": name }))?;
    } else {
        print_line(&app.fill(words::SIGNED_OUT, &[("name", &printable(name))]))?;
    }
    Ok(ExitCode::SUCCESS)
}
