//! Taking the home for a gateway, and who has it where that is not possible.

use std::time::{Duration, Instant};

use tidegate_engine::{EngineError, Home, HomeLock};
use tidegate_protocol::ErrorCode;

use crate::app::App;
use crate::failure::{Failure, With as _};
use crate::output::complain;
use crate::texts;

/// How long a chat that somebody leaves may take.
const CHAT_LEAVES: Duration = Duration::from_secs(1);
/// How long a command that holds the home is waited for.
const COMMAND_ENDS: Duration = Duration::from_secs(10);

/// Takes the home. A command that is on its way out is waited for, a gateway and an open chat are not.
pub(super) async fn hold(home: &Home) -> Result<HomeLock, Failure> {
    let begin = Instant::now();
    loop {
        let busy = match home.lock(Duration::from_millis(100), "gateway").await {
            Ok(lock) => return Ok(lock),
            Err(busy @ EngineError::HomeBusy { .. }) => busy,
            Err(error) => return Err(error.into()),
        };
        let EngineError::HomeBusy { holder, .. } = &busy else { return Err(busy.into()) };
        if holder.contains("(gateway)") {
            let message = texts::GATEWAY_IS_RUNNING.with(&[("holder", holder)]);
            return Err(Failure::new(ErrorCode::GatewayRunning, message)
                .with_hint(texts::GATEWAY_IS_RUNNING_HINT.with(&[("program", &"{program}")])));
        }
        if holder.contains("(chat)") && begin.elapsed() > CHAT_LEAVES {
            let message =
                texts::CHAT_HOLDS_HOME.with(&[("holder", holder), ("path", &home.root().display())]);
            return Err(Failure::new(ErrorCode::HomeBusy, message)
                .with_hint(texts::CHAT_HOLDS_HOME_HINT.with(&[("program", &"{program}")])));
        }
        if begin.elapsed() > COMMAND_ENDS {
            return Err(busy.into());
        }
    }
}

/// Who holds the home where no gateway does: a new one would have to wait.
pub(super) fn mention_holder(app: &App, home: &Home) {
    if let Some(holder) = home.holder() {
        complain(&app.fill(texts::HOME_HELD, &[("holder", &holder)]));
    }
}
