//! Many clients that do nothing: what each costs in memory, and what happens when all of them drop and come back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_runtime::{Task, spawn};
use tokio::sync::{Semaphore, watch};

use super::program::Program;
use super::socket::Socket;
use super::turns::{Target, drive};
use crate::stats::rounded;
use crate::store::{Fallible, goal};

const IDLE_CLIENTS: usize = 10_000;
const STORM_CLIENTS: usize = 5_000;
/// Clients that come in at once: as many as one driver on two cores keeps busy.
const AT_ONCE: usize = 128;
/// In a storm everybody comes at once; who is sent away tries again after a moment, as our clients do.
const AGAIN: Duration = Duration::from_millis(250);
const SETTLE: Duration = Duration::from_secs(5);

/// What ten thousand clients cost while they wait, and after each of them asked something.
pub(crate) async fn idle(program: &Program) -> Fallible<Value> {
    allow_many_files();
    let before = program.proportional_kb();
    let crowd = Crowd::gather(&program.target(), IDLE_CLIENTS, AT_ONCE).await?;
    tokio::time::sleep(SETTLE).await;
    let each = |kilobytes: f64| (kilobytes - before) / IDLE_CLIENTS as f64;
    let waiting = each(program.proportional_kb());
    crowd.ask_each().await?;
    tokio::time::sleep(SETTLE).await;
    let after = each(program.proportional_kb());
    crowd.go().await;
    Ok(json!({
        "clients": IDLE_CLIENTS,
        "idle_kb_each": goal(waiting, "at most", 16.0),
        "after_traffic_kb_each": goal(after, "at most", 24.0),
    }))
}

/// Five thousand clients drop and come back at once, beside one who goes on asking.
pub(crate) async fn storm(program: &Program) -> Fallible<Value> {
    allow_many_files();
    let target = program.target();
    let alone = drive(&target, 1, SETTLE, 9000).await?;
    let crowd = Crowd::gather(&target, STORM_CLIENTS, AT_ONCE).await?;
    crowd.go().await;
    let (cpu, start) = (program.cpu_ms(), Instant::now());
    let beside = {
        let target = target.clone();
        spawn("bench.beside", async move { drive(&target, 1, SETTLE, 9001).await })
    };
    let crowd = Crowd::gather(&target, STORM_CLIENTS, STORM_CLIENTS).await?;
    let back = start.elapsed();
    let spent = program.cpu_ms() - cpu;
    let beside = beside.join().await.map_err(|end| end.to_string())??;
    crowd.go().await;
    Ok(json!({
        "clients": STORM_CLIENTS,
        "all_back_after_s": rounded(back.as_secs_f64()),
        "gateway_cpu_ms_a_client": rounded(spent / STORM_CLIENTS as f64),
        "turn_p99_ms_before": rounded(alone.p99_ms()),
        "turn_p99_ms_beside": rounded(beside.p99_ms()),
    }))
}

/// Clients that are there until they are told to ask or to go.
struct Crowd {
    clients: Vec<Task<Fallible<()>>>,
    told: watch::Sender<Wish>,
    asked: Arc<Semaphore>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Wait,
    Ask,
    Go,
}

impl Crowd {
    async fn gather(target: &Target, count: usize, at_once: usize) -> Fallible<Self> {
        let places = Arc::new(Semaphore::new(at_once));
        let (told, wish) = watch::channel(Wish::Wait);
        let (there, asked) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let client = || {
            let (target, places, wish) = (target.clone(), Arc::clone(&places), wish.clone());
            let (there, asked) = (Arc::clone(&there), Arc::clone(&asked));
            spawn("bench.crowd", async move {
                let place = places.acquire().await?;
                let socket = enter(&target).await?;
                drop(place);
                there.add_permits(1);
                stay(socket, wish, &asked).await
            })
        };
        let clients: Vec<_> = (0..count).map(|_| client()).collect();
        let all = there.acquire_many(u32::try_from(count)?);
        let _all = tokio::time::timeout(Duration::from_mins(2), all)
            .await
            .map_err(|_| format!("only {} of {count} clients came in", there.available_permits()))??;
        Ok(Self { clients, told, asked })
    }

    async fn ask_each(&self) -> Fallible<()> {
        self.told.send_replace(Wish::Ask);
        let all = u32::try_from(self.clients.len())?;
        let asked = tokio::time::timeout(Duration::from_mins(2), self.asked.acquire_many(all)).await;
        let _asked = asked.map_err(|_| "not everybody was answered")??;
        Ok(())
    }

    async fn go(self) {
        self.told.send_replace(Wish::Go);
        for client in self.clients {
            let _ = client.join().await;
        }
    }
}

/// Comes in; who is sent away because too many come at once tries again, for a while.
async fn enter(target: &Target) -> Fallible<Socket> {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        match Socket::enter(target).await {
            Err(_) if Instant::now() < until => tokio::time::sleep(AGAIN).await,
            entered => return entered,
        }
    }
}

/// Reads what comes, as a client does; asks once when it is told to.
async fn stay(mut socket: Socket, mut wish: watch::Receiver<Wish>, asked: &Semaphore) -> Fallible<()> {
    loop {
        tokio::select! {
            frame = socket.quiet_frame() => drop(frame?),
            changed = wish.changed() => {
                changed?;
                let now = *wish.borrow_and_update();
                match now {
                    Wish::Wait => {}
                    Wish::Ask => {
                        socket.ask("health", &json!({})).await?;
                        asked.add_permits(1);
                    }
                    Wish::Go => return Ok(()),
                }
            }
        }
    }
}

/// The driver has as many files open as it has clients.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
