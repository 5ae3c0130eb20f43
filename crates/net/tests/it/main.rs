//! The client against servers on the loopback, and against addresses it must not call.

mod fetching;
mod refusing;
