//! The one HTTP client of the program: whatever leaves, leaves through here.
//!
//! A call says where its address came from ([`Origin`]), has a time to connect and a time without a byte after which it
//! is given up, and closes its socket when it is dropped. What a model, a page or a message chose passes the [`Guard`]
//! first and reaches only public addresses. Programs in a sandbox reach hosts through an [`EgressProxy`], which has the
//! same guard. Errors never quote an address's query or a header's value.

mod address;
mod client;
mod egress;
mod error;
mod fetch;
mod guard;
mod leak;
mod proxy;

pub use address::{AddressClass, class_of};
pub use client::{Call, Client, Headers, Method, Origin, Reply, Timeouts};
pub use egress::Egress;
pub use error::NetError;
pub use fetch::{Fetch, Fetched, Hosts};
pub use guard::{Address, BadAllowance, Guard, Resolver, with_query};
pub use leak::{Leak, LeakScan, NamedSecret, Redacted};
pub use proxy::{EgressProxy, ProxyCounts, ProxyCredential, ProxyLimits, ProxyRules, TurnedAway};
/// What a header may hold.
pub use tidegate_secrets::Secret;
