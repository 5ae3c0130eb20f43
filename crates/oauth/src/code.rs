//! The code of a login: from the browser or from the person, whichever comes first.

use tidegate_secrets::Secret;

use crate::callback::Callback;
use crate::paste::{Expected, code_in};
use crate::{LoginError, LoginUi};

/// How often an empty line is asked for again.
const PASTES: usize = 5;

/// Waits for the code. The caller says for how long.
pub async fn code(
    callback: Option<Callback>,
    ui: &dyn LoginUi,
    expected: Expected<'_>,
) -> Result<Secret, LoginError> {
    let Some(callback) = callback else {
        return pasted(ui, expected).await.unwrap_or(Err(LoginError::NoCode));
    };
    let browser = callback.code(expected);
    tokio::pin!(browser);
    tokio::select! {
        code = &mut browser => code,
        pasted = pasted(ui, expected) => match pasted {
            Some(code) => code,
            // Nobody to paste, but perhaps a browser.
            None => browser.await,
        },
    }
}

/// `None` when there is nobody to paste.
async fn pasted(ui: &dyn LoginUi, expected: Expected<'_>) -> Option<Result<Secret, LoginError>> {
    for _ in 0..PASTES {
        let text = ui.paste().await?;
        if !text.trim().is_empty() {
            return Some(code_in(&text, expected));
        }
    }
    Some(Err(LoginError::NoCode))
}
