//! Tools: what they are, how a call is prepared and run, and those that are built in.
//!
//! A tool first says what it would do (`prepare`), the gate in `policy` decides, and only what the gate permitted can be
//! handed back to it (`run`). This crate never decides whether something may be done and never asks anybody.

mod basics;
mod browser;
mod custom;
mod exec;
mod execute;
mod fence;
mod files;
mod loops;
mod place;
mod provider;
mod registry;
mod root;
mod schema;
mod spec;
#[doc(hidden)]
pub mod testing;
mod tool;
pub mod truncate;
mod web;

pub use basics::basic_tools;
pub use browser::{BrowserGround, BrowserProfile, BrowserSettings, BrowserTool, Browsers};
pub use custom::{
    CommandOutput, CommandSpec, CustomError, CustomKind, CustomSpec, HttpSpec, HttpSpecError, TemplateError,
    custom_tool,
};
pub use exec::{Disk, ExecSettings, ExecTool, ProcessLimits, ProcessTool, Processes};
pub use execute::{execute, failed, refused};
pub use fence::fence;
pub use files::{file_tools, image_type};
pub use loops::{LoopLimits, Loops, Repeat};
pub use place::Place;
pub use provider::ToolProvider;
pub use registry::{NameTaken, Registry};
pub use root::{PathError, Root};
pub use schema::{ArgumentProblem, check_arguments, check_schema};
pub use spec::{DEFAULT_TIMEOUT, ToolSpec};
pub use tool::{Output, Tool, ToolFailure, Work};
pub use web::{
    HttpRequest, SearchProvider, WebFetchSettings, WebSearchSettings, WebSettings, chosen as chosen_address,
    failed as network_failure, request, web_tools,
};
