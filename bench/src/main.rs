//! Benchmarks: programs that print ratios as JSON. They are run by hand, in release builds, never as timed tests.

#![allow(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^52")]

mod agent;
mod engine;
mod gateway;
mod machine;
mod models;
mod sandbox;
mod stats;
mod store;
mod tools;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let bench = std::env::args().nth(1).unwrap_or_default();
    // Before anything else has begun: a supervisor has one thread.
    if bench == sandbox::SUPERVISE {
        tidegate_sandbox::supervise();
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let report = match bench.as_str() {
        "agent" => runtime.block_on(agent::run())?,
        "engine" => runtime.block_on(engine::run())?,
        "gateway" => runtime.block_on(gateway::run(&std::env::args().skip(2).collect::<Vec<_>>()))?,
        "models" => models::run()?,
        "sandbox" => runtime.block_on(sandbox::run())?,
        "store" => runtime.block_on(store::run())?,
        "tools" => tools::run()?,
        other => {
            return Err(format!(
                "unknown benchmark {other:?}; there are: agent, engine, gateway, models, sandbox, store, tools"
            )
            .into());
        }
    };
    println!("{report:#}");
    Ok(())
}
