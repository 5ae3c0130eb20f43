//! What every running part needs and nobody should write twice: time, ids, tasks, shutdown, fault points,
//! redaction and the message catalogue.

pub mod catalogue;
mod clock;
pub mod fault;
mod identity;
pub mod memory;
mod redact;
mod shutdown;
pub mod socket;
mod task;
mod zone;

pub use clock::{Clock, SystemClock, iso_timestamp};
pub use identity::{RandomnessError, new_id};
pub use redact::{credential_shape, redact};
pub use shutdown::Shutdown;
pub use task::{Task, TaskEnd, spawn, spawn_blocking, spawn_thread};
pub use zone::Zone;
