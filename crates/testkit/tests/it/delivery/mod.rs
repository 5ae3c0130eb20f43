//! The delivery machine, killed, starved, wedged and drained, on both databases.
//!
//! `tidegate-testkit host` is the real engine among faulty networks whose world is a folder. Whatever happens to it,
//! the world and the store must agree afterwards on everything that was promised; see [`check`].

/// Makes each sentence a test on SQLite and one on Postgres, on a store that nobody has opened yet.
macro_rules! on_places {
    ($($test:ident),+ $(,)?) => {
        mod sqlite {
            on_places!(on Sqlite; $($test),+);
        }
        mod postgres {
            on_places!(on Postgres; $($test),+);
        }
    };
    (on $backend:ident; $($test:ident),+) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $test() {
            use tidegate_testkit::stores::{Backend, with_place};
            with_place(Backend::$backend, async |store| super::$test(store).await).await;
        })+
    };
}

pub(crate) mod check;
mod disk;
mod doubt;
mod drain;
mod flap;
pub(crate) mod kill;
mod owners;
mod poison;
mod wedge;
pub(crate) mod world;
