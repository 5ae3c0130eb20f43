//! The Model Context Protocol, both ways: the tools of others for our agents, and ours for others.
//!
//! A server is a program that is started here, held by the sandbox like any program of an agent, or runs elsewhere and
//! is reached over the one HTTP client. Its tools are called `mcp.<server>.<tool>` and go the way of every other tool:
//! nothing here decides what may be called. What a server says is text from outside: bounded, inert, and fenced.

mod client;
mod login;
mod serve;

pub use client::{
    AddressSpec, LeftOut, Listing, LoginWanted, Means, ProgramSpec, Reach, ServerSpec, Servers, Standing,
    Status, ToolFilter,
};
pub use login::{LoginSummary, Logins, OauthSpec, SignInError, sign_in};
pub use serve::{
    Answer, Body, Caller, Completing, Content, Desk, DeskError, Document, Level, McpHttp, OfferedPrompt,
    OfferedTemplate, OfferedText,
};
