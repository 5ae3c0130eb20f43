//! Tools: what they are, how a call is prepared and run, and those that are built in.
//!
//! A tool first says what it would do (`prepare`), the gate in `policy` decides, and only what the gate permitted can be
//! handed back to it (`run`). This crate never decides whether something may be done and never asks anybody.

mod custom;
mod exec;
mod loops;
mod place;
mod spec;
mod tool;
mod web;

pub use custom::{
    CommandOutput, CommandSpec, CustomError, CustomKind, CustomSpec, HttpSpec, HttpSpecError, TemplateError,
    custom_tool,
};
pub use exec::{Disk, ExecSettings, ExecTool, ProcessLimits, ProcessTool, Processes};
pub use loops::{LoopLimits, Loops, Repeat};
pub use place::Place;
pub use spec::{DEFAULT_TIMEOUT, ToolSpec};
pub use tool::{Output, Tool, ToolFailure, Work};
pub use web::{
    HttpRequest, SearchProvider, WebFetchSettings, WebSearchSettings, WebSettings, fence, request, web_tools,
};
