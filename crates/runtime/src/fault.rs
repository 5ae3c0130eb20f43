//! Fault points: named places where a test may kill, stall or fail the program.
//!
//! `TIDEGATE_FAULT="<point>=<action>[@<n>][;…]"` arms them; `n` is the hit that triggers, 1 by default. Actions are
//! `kill` (SIGKILL to ourselves), `panic` and `hang`. `TIDEGATE_FAULT_TRACE=<file>`
//! appends the name of every point passed, so that a test finds them all by itself. They exist only in builds with
//! debug assertions; in a release every function here is empty.

#[cfg(debug_assertions)]
mod armed {
    use std::collections::HashMap;
    use std::io::Write as _;
    use std::sync::{Mutex, OnceLock, PoisonError};

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(super) enum Action {
        Kill,
        Panic,
        Hang,
    }

    struct Armed {
        points: HashMap<String, (Action, u64)>,
        hits: Mutex<HashMap<&'static str, u64>>,
        trace: Option<Mutex<std::fs::File>>,
    }

    fn parse(text: &str) -> HashMap<String, (Action, u64)> {
        text.split(';')
            .filter_map(|item| {
                let (point, action) = item.trim().split_once('=')?;
                let (action, hit) = action.split_once('@').unwrap_or((action, "1"));
                let action = match action {
                    "kill" => Action::Kill,
                    "panic" => Action::Panic,
                    "hang" => Action::Hang,
                    _ => return None,
                };
                Some((point.to_owned(), (action, hit.parse().ok()?)))
            })
            .collect()
    }

    fn armed() -> &'static Armed {
        static ARMED: OnceLock<Armed> = OnceLock::new();
        ARMED.get_or_init(|| Armed {
            points: std::env::var("TIDEGATE_FAULT").map(|text| parse(&text)).unwrap_or_default(),
            hits: Mutex::default(),
            trace: std::env::var_os("TIDEGATE_FAULT_TRACE")
                .and_then(|path| std::fs::OpenOptions::new().create(true).append(true).open(path).ok())
                .map(Mutex::new),
        })
    }

    /// Counts the hit and says what to do now.
    pub(super) fn hit(point: &'static str) -> Option<Action> {
        let armed = armed();
        if let Some(trace) = &armed.trace {
            let _ = writeln!(trace.lock().unwrap_or_else(PoisonError::into_inner), "{point}");
        }
        let (action, at) = *armed.points.get(point)?;
        let mut hits = armed.hits.lock().unwrap_or_else(PoisonError::into_inner);
        let hit = hits.entry(point).and_modify(|hit| *hit += 1).or_insert(1);
        (*hit == at).then_some(action)
    }

    pub(super) fn kill() -> ! {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_list_of_points_is_read_and_nonsense_is_left_out() {
            let points = parse("a.b=kill; c=hang@3 ;d=what;e;f=kill@x");
            let mut points: Vec<_> = points.into_iter().collect();
            points.sort_by(|a, b| a.0.cmp(&b.0));
            assert_eq!(points, vec![("a.b".into(), (Action::Kill, 1)), ("c".into(), (Action::Hang, 3))]);
        }
    }
}

/// The name of a place. A release does not keep it: there the type is empty, and so the text is nowhere in the binary.
#[derive(Debug, Clone, Copy)]
pub struct Name {
    #[cfg(debug_assertions)]
    text: &'static str,
}

impl Name {
    /// For a name that is kept before it is used.
    #[cfg_attr(not(debug_assertions), expect(unused_variables, reason = "the same signature in every build"))]
    pub const fn new(text: &'static str) -> Self {
        Self {
            #[cfg(debug_assertions)]
            text,
        }
    }
}

impl From<&'static str> for Name {
    #[inline]
    fn from(text: &'static str) -> Self {
        Self::new(text)
    }
}

/// A place in synchronous code.
#[inline]
pub fn point(name: impl Into<Name>) {
    let name = name.into();
    #[cfg(debug_assertions)]
    match armed::hit(name.text) {
        Some(armed::Action::Kill) => armed::kill(),
        #[expect(clippy::panic, reason = "the fault a test asked for")]
        Some(armed::Action::Panic) => panic!("fault point {}", name.text),
        Some(armed::Action::Hang) => loop {
            std::thread::park();
        },
        None => {}
    }
    #[cfg(not(debug_assertions))]
    let _ = name;
}

/// A place in asynchronous code: `hang` waits there without blocking its thread.
#[inline]
pub fn pause(name: impl Into<Name>) -> impl Future<Output = ()> + Send {
    // Turned into a `Name` before the future is made: a future keeps its arguments, and the text would stay with it.
    paused_at(name.into())
}

#[cfg_attr(not(debug_assertions), expect(clippy::unused_async, reason = "the same signature in every build"))]
async fn paused_at(name: Name) {
    #[cfg(debug_assertions)]
    match armed::hit(name.text) {
        Some(armed::Action::Kill) => armed::kill(),
        #[expect(clippy::panic, reason = "the fault a test asked for")]
        Some(armed::Action::Panic) => panic!("fault point {}", name.text),
        Some(armed::Action::Hang) => std::future::pending::<()>().await,
        None => {}
    }
    #[cfg(not(debug_assertions))]
    let _ = name;
}

/// How long a test wants the offline model to take for each piece of its answer (`TIDEGATE_OFFLINE_DELAY_MS`).
#[inline]
pub fn model_delay() -> std::time::Duration {
    #[cfg(debug_assertions)]
    {
        use std::sync::OnceLock;
        static DELAY: OnceLock<u64> = OnceLock::new();
        std::time::Duration::from_millis(*DELAY.get_or_init(|| {
            std::env::var("TIDEGATE_OFFLINE_DELAY_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
        }))
    }
    #[cfg(not(debug_assertions))]
    std::time::Duration::ZERO
}

/// How far a test moved the wall clock (`TIDEGATE_CLOCK_SKEW_MS`).
#[inline]
pub(crate) fn clock_skew_ms() -> i64 {
    #[cfg(debug_assertions)]
    {
        use std::sync::OnceLock;
        static SKEW: OnceLock<i64> = OnceLock::new();
        *SKEW.get_or_init(|| {
            std::env::var("TIDEGATE_CLOCK_SKEW_MS").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
        })
    }
    #[cfg(not(debug_assertions))]
    0
}
