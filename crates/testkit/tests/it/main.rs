//! The storage conformance suite: one set of promises, held against both backends.
#![allow(clippy::unwrap_used, clippy::expect_used)]

/// Makes each promise a test on SQLite and one on Postgres, on a store of its own.
macro_rules! on_both_backends {
    (connections = $connections:expr; $($test:ident),+ $(,)?) => {
        mod sqlite {
            on_both_backends!(on Sqlite, $connections; $($test),+);
        }
        mod postgres {
            on_both_backends!(on Postgres, $connections; $($test),+);
        }
    };
    (on $backend:ident, $connections:expr; $($test:ident),+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            use tidegate_testkit::stores::{Backend, with_store};
            with_store(Backend::$backend, $connections, async |store| super::$test(store).await).await;
        })+
    };
    ($($test:ident),+ $(,)?) => {
        on_both_backends!(connections = tidegate_testkit::stores::CONNECTIONS; $($test),+);
    };
}

mod approvals;
mod conformance;
mod crash;
mod delivery;
mod model;
mod properties;
mod scene;
mod spending;
mod tools_killed;
