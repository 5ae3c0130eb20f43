//! Ending runs wherever the home is held. Where nobody holds it they are ended in the store alone: nothing is begun
//! only to be ended.

use tidegate_client::ClientError;
use tidegate_config::Loaded;
use tidegate_engine::{Home, Settings, StopFilter, stop_stored};
use tidegate_policy::Principal;
use tidegate_protocol::ErrorCode;
use tidegate_protocol::api::{StopRuns, StoppedRun, StoppedRuns};
use tidegate_storage::RunRow;

use super::{CALL, Found, Seeker};
use crate::app::{App, now_ms};
use crate::failure::Failure;
use crate::store::{Access, open};

pub(crate) async fn stop_runs(
    app: &App,
    home: &Home,
    loaded: &Loaded,
    filter: &StopFilter,
) -> Result<Vec<StoppedRun>, Failure> {
    let asked = StopRuns {
        session: filter.session.as_ref().map(ToString::to_string),
        agent: filter.agent.as_ref().map(ToString::to_string),
        all: filter.waiting,
    };
    let mut seeker = Seeker::new(app, home, "stop", app.home_patience());
    loop {
        match seeker.seek().await? {
            Found::Free(lock) => {
                let store = open(home, &loaded.config, Access::Write).await?;
                let owner = Principal::local_owner(Settings::new(loaded).scope(None)?.tenant);
                let stopped = stop_stored(store.as_ref(), &owner, filter, now_ms()).await;
                drop(lock);
                return Ok(stopped?.iter().map(line).collect());
            }
            Found::Held(client) => {
                let stopped = client.post::<StoppedRuns>("/api/v1/runs/stop", &asked, CALL).await;
                match stopped {
                    Ok(stopped) => return Ok(stopped.runs),
                    Err(ClientError::Nobody { .. } | ClientError::Closing { .. })
                        if !seeker.left().is_zero() => {}
                    Err(error) if error.body().code == ErrorCode::Closing && !seeker.left().is_zero() => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

fn line(row: &RunRow) -> StoppedRun {
    StoppedRun {
        run_id: row.id,
        request_id: row.client_key.clone(),
        session: row.key.to_string(),
        state: row.state.clone(),
        text: row.input.text(),
    }
}
