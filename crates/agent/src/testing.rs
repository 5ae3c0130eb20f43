//! What recorded cases are compared with from outside. Not part of the crate's promises.

use tidegate_runtime::catalogue::Text;

/// What people read when the model is busy.
pub const BUSY: Text = crate::texts::BUSY;
