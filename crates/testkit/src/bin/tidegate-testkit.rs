//! Programs for tests. Two are made to be killed; `TIDEGATE_FAULT=storage.finish.before_commit=kill` and the like say where. `verb`
//! plays one script on a store and prints what was acknowledged, a JSON line after each verb returned. `host` is the
//! whole delivery machine among faulty networks. `model-server` plays the model vendors, `mcp-fixture` the
//! server that the MCP conformance suite expects.

use std::io::Write as _;
use std::process::ExitCode;

use tidegate_storage::StoreError;
use tidegate_testkit::crash::print_ack;
use tidegate_testkit::host::Plan;
use tidegate_testkit::mcp_fixture;
use tidegate_testkit::model_server::Program;
use tidegate_testkit::script::{Ack, Script, Verb};
use tidegate_testkit::stores::Location;

const USAGE: &str = "usage: tidegate-testkit sqlite <file> | postgres <schema>=<url>
           verb <verb> --seed <number> --tenant <name>

Plays the verb on a small world and prints a JSON line for every verb that returned.";

struct Arguments {
    location: Location,
    tenant: String,
    seed: u64,
    verb: Verb,
}

fn read(arguments: &[String]) -> Option<Arguments> {
    let [backend, place, command, verb, seed_flag, seed, tenant_flag, tenant] = arguments else {
        return None;
    };
    if [command, seed_flag, tenant_flag] != ["verb", "--seed", "--tenant"] {
        return None;
    }
    Some(Arguments {
        location: Location::from_args(backend, place)?,
        tenant: tenant.clone(),
        seed: seed.parse().ok()?,
        verb: Verb::parse(verb)?,
    })
}

async fn play(arguments: &Arguments) -> Result<(), StoreError> {
    let mut ack = |ack: Ack| {
        let mut stdout = std::io::stdout().lock();
        // Whoever reads this may be gone; then nobody was told and nothing is lost.
        let _ = writeln!(stdout, "{}", print_ack(&ack)).and_then(|()| stdout.flush());
    };
    let store = arguments.location.open(1).await?;
    let script = Script::new(&arguments.tenant, arguments.verb, arguments.seed);
    if arguments.verb == Verb::Migrate {
        ack(Ack { verb: Verb::Migrate, answer: "()".to_owned() });
    } else {
        let world = script.prepare(&*store, &mut ack).await?;
        script.perform(&*store, &world, &mut ack).await?;
    }
    store.close().await;
    Ok(())
}

/// Says what the engine warns about where a failing test shows it.
async fn host(plan: &Plan) -> ExitCode {
    let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::WARN);
    log.with_ansi(false).init();
    match plan.follow().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn model_server(server: &Program) -> ExitCode {
    match server.run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(plan) = Plan::from_args(&arguments) {
        return host(&plan).await;
    }
    if let Some(server) = Program::from_args(&arguments) {
        return model_server(&server).await;
    }
    if arguments == ["mcp-fixture"] {
        return match mcp_fixture::serve().await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let Some(arguments) = read(&arguments) else {
        eprintln!("{USAGE}\n\n       {}\n\n       {}", Plan::USAGE, Program::USAGE);
        return ExitCode::from(2);
    };
    match play(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("[{}] {error}", error.code());
            ExitCode::FAILURE
        }
    }
}
