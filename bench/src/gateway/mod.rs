//! `gateway [part …]`: the real program on a real port, over a model that answers at once and over the disk it stands on.
//!
//! Driver and model share the two cores with it, so what decides is its CPU a turn, which the scheduler tells. Floors (the
//! bare model, one append with `fdatasync`) are measured between the pieces, so that a bad mood is bad for both.

mod chats;
mod crowd;
mod disk;
mod http;
mod mock;
mod program;
mod slow;
mod socket;
mod table;
mod turns;

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use self::program::Program;
use self::turns::{Piece, Target, drive};
use crate::machine::Cpu;
use crate::stats::{median, rounded};
use crate::store::{Fallible, goal};

const STARTS: usize = 11;
const IDLE: Duration = Duration::from_secs(30);
const ROUNDS: usize = 5;
const PIECE: Duration = Duration::from_secs(2);
const CLIENTS: [usize; 4] = [1, 8, 32, 256];
/// The number of clients for which the goals are set.
const MANY_CLIENTS: usize = 32;
const FIRST_TURNS: u64 = 10_000;
const ALL_TURNS: u64 = 50_000;
/// What can be measured alone, in the order of the whole.
const PARTS: [&str; 7] = ["starts", "one", "http", "ws", "slow", "sockets", "memory"];

pub(crate) async fn run(parts: &[String]) -> Result<Value, Box<dyn Error>> {
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        return Err(format!("unknown part {unknown:?}; there are: {}", PARTS.join(", ")).into());
    }
    measure(parts).await.map_err(|error| -> Box<dyn Error> { error })
}

async fn measure(parts: &[String]) -> Fallible<Value> {
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    let folder = crate::machine::bench_folder()?;
    let cpu = Cpu::now();
    let model = mock::start().await?;
    let mut report = Map::new();
    report.insert("bench".into(), json!("gateway"));
    if wanted("starts") {
        report.insert("start_to_ready_ms".into(), starts(&folder.path().join("starting")).await?);
    }
    let mut program = Program::start(&folder.path().join("home"), Some(model)).await?;
    let mut idle = f64::NAN;
    if wanted("starts") || wanted("memory") {
        tokio::time::sleep(IDLE).await;
        idle = program.resident_mb();
        report.insert("idle_rss_mb".into(), goal(idle, "at most", 20.0));
    }
    if wanted("one") {
        report.insert("one_client".into(), one_client(&program, model, folder.path()).await?);
    }
    if wanted("http") {
        report.insert("http".into(), many_clients(&program, model).await?);
    }
    if wanted("memory") {
        report.insert("memory".into(), memory(&program, idle).await?);
    }
    if wanted("ws") {
        report.insert("ws".into(), many_chats(&program).await?);
    }
    if wanted("slow") {
        report.insert("slow_reader".into(), slow::beside_fast_ones(&program).await?);
    }
    if wanted("sockets") {
        report.insert("sockets".into(), crowd::idle(&program).await?);
        report.insert("storm".into(), crowd::storm(&program).await?);
    }
    program.stop().await?;
    report.insert("cpu_of_other_processes".into(), json!(rounded(cpu.others_since())));
    let report = Value::Object(report);
    eprintln!("{}", table::of(&report));
    Ok(report)
}

/// From the start of the process to the first answer that says it is ready; the first one makes the home.
async fn starts(home: &Path) -> Fallible<Value> {
    let mut taken = Vec::new();
    for _ in 0..STARTS {
        let mut program = Program::start(home, None).await?;
        taken.push(program.ready_after.as_secs_f64() * 1e3);
        program.stop().await?;
    }
    let first = taken.remove(0);
    Ok(json!({ "p50": goal(median(taken), "at most", 25.0), "with_a_new_home": rounded(first) }))
}

/// What one client waits for, over the bare model and over what a disk takes to keep something.
async fn one_client(program: &Program, model: SocketAddr, folder: &Path) -> Fallible<Value> {
    let (mut over_whole, mut over_first, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let sync = disk::sync_ms(folder)?;
        let bare = drive(&Target::model(model), 1, PIECE / 2, round).await?;
        let whole = drive(&program.target(), 1, PIECE, round).await?;
        over_whole.push(whole.p50_ms() - bare.p50_ms());
        over_first.push(whole.first_ms() - bare.first_ms());
        syncs.push(sync);
    }
    let sync = median(syncs);
    Ok(json!({
        "fdatasync_ms": rounded(sync),
        "turn_p50_over_the_model_ms": goal(median(over_whole), "at most", rounded(2.0 * sync + 1.5)),
        "first_token_over_the_model_ms": goal(median(over_first), "at most", rounded(sync + 1.0)),
    }))
}

async fn many_clients(program: &Program, model: SocketAddr) -> Fallible<Value> {
    let mut report = Map::new();
    for clients in CLIENTS {
        let rounds = if clients == MANY_CLIENTS { ROUNDS } else { 1 };
        let (mut pieces, mut costs, mut bare) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            bare.push(drive(&Target::model(model), clients, PIECE / 2, round).await?.a_second());
            let before = program.cpu_ms();
            let piece = drive(&program.target(), clients, PIECE, round).await?;
            costs.push((program.cpu_ms() - before) / piece.turns() as f64);
            pieces.push(piece);
        }
        let mut row = row_of(&pieces, costs.clone());
        row["bare_model_turns_a_second"] = json!(rounded(median(bare)));
        if clients == MANY_CLIENTS {
            let rate = median(pieces.iter().map(Piece::a_second).collect());
            row["turns_a_second"] = goal(rate, "at least", 1500.0);
            row["gateway_cpu_ms_a_turn"] = goal(median(costs), "at most", 0.6);
        }
        report.insert(clients.to_string(), row);
    }
    Ok(Value::Object(report))
}

/// The same over WebSocket, where every client hears of every turn.
async fn many_chats(program: &Program) -> Fallible<Value> {
    let mut report = Map::new();
    for clients in CLIENTS {
        let before = program.cpu_ms();
        let piece = chats::drive(&program.target(), clients, PIECE, 1).await?;
        let cost = (program.cpu_ms() - before) / piece.turns() as f64;
        report.insert(clients.to_string(), row_of(&[piece], vec![cost]));
    }
    Ok(Value::Object(report))
}

fn row_of(pieces: &[Piece], costs: Vec<f64>) -> Value {
    let middle = |of: fn(&Piece) -> f64| rounded(median(pieces.iter().map(of).collect()));
    json!({
        "turns_a_second": middle(Piece::a_second),
        "gateway_cpu_ms_a_turn": rounded(median(costs)),
        "p50_ms": middle(Piece::p50_ms),
        "p99_ms": middle(Piece::p99_ms),
    })
}

/// Memory after many turns: whatever is kept for a turn would show.
async fn memory(program: &Program, idle: f64) -> Fallible<Value> {
    let mut turns = 0;
    let mut after_first = f64::NAN;
    for round in 1000.. {
        turns += drive(&program.target(), MANY_CLIENTS, PIECE, round).await?.turns();
        if turns >= FIRST_TURNS && after_first.is_nan() {
            tokio::time::sleep(IDLE).await;
            after_first = program.resident_mb();
        }
        if turns >= ALL_TURNS {
            break;
        }
    }
    tokio::time::sleep(IDLE).await;
    let after_all = program.resident_mb();
    Ok(json!({
        "turns": turns, "idle_mb": rounded(idle), "after_all_mb": rounded(after_all),
        "after_10000_over_idle_mb": goal(after_first - idle, "at most", 15.0),
        "after_all_over_after_10000": goal(after_all / after_first, "at most", 1.1),
    }))
}
