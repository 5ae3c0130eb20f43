//! The tools of this installation, put together from what is built in and what is configured.

use tidegate_protocol::ErrorCode;
use tidegate_tools::{Registry, basic_tools};

use crate::failure::{Failure, Message};

pub(crate) fn toolbox() -> Result<Registry, Failure> {
    let mut registry = Registry::default();
    for tool in basic_tools() {
        let added = registry.add(tool);
        added.map_err(|taken| Failure::new(ErrorCode::Internal, Message::plain(taken.to_string())))?;
    }
    Ok(registry)
}
