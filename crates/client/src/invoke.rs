//! A tool that is run by whoever holds the home.

use std::time::Duration;

use tidegate_protocol::api::{InvokeTool, ToolEvent};

use crate::call::within;
use crate::connect::Client;
use crate::error::ClientError;
use crate::lines::Lines;

/// What becomes of a call. Dropping it hangs up, and the gateway then ends the call.
#[derive(Debug)]
pub struct ToolStream {
    client: Client,
    lines: Lines<ToolEvent>,
}

impl Client {
    /// Has a tool run. `Closing` means that nothing was begun, and that the next holder may be asked.
    pub async fn invoke(&self, call: &InvokeTool, patience: Duration) -> Result<ToolStream, ClientError> {
        let lines = within(patience, self.lines("/api/v1/tools/invoke", call)).await?;
        Ok(ToolStream { client: self.clone(), lines })
    }
}

impl ToolStream {
    /// The next event. The stream ends with a result or an error; when it breaks off before that, nobody knows what
    /// became of the call, and it must not be made again by itself.
    pub async fn next(&mut self) -> Result<ToolEvent, ClientError> {
        match self.lines.next().await {
            Ok(Some(event)) => Ok(event),
            Ok(None) | Err(ClientError::Closing { .. }) => {
                Err(self.client.protocol("the connection ended before the tool did".to_owned()))
            }
            Err(error) => Err(error),
        }
    }
}
