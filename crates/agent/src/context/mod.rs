//! What a model is shown: instructions, the conversation as far as it fits, thinned where it may be.
//!
//! Everything here is pure, and the same input gives the same bytes: what stood in one request stands in the next one
//! too, so that a provider's cache holds.

mod estimate;
mod files;
mod history;
mod prune;
mod report;
mod system;
#[cfg(test)]
mod tests;

pub use estimate::estimate;
pub use history::{Line, history, paired, summary};
pub use prune::{Pruning, PruningMode, prune};
pub use report::{ContextReport, FileReport, Part, report};
pub use system::{BootstrapFile, PromptMode, Scene, system};
/// Text from outside in its fence, with one line that says where it came from.
pub use tidegate_tools::fence as fenced;
