//! The program under measurement: the release binary that lies beside this one.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::timeout;

use super::http::{Connection, Stream};
use super::turns::Target;
use crate::machine::{cpu_seconds_of, proportional_kb_of, resident_mb_of};
use crate::store::Fallible;

/// A start that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(1);
/// One question whether it is ready; a program that takes it and does not answer is asked again.
const ONE_LOOK: Duration = Duration::from_secs(5);

pub(crate) struct Program {
    child: Child,
    address: SocketAddr,
    token: String,
    /// From its start to its first answer that it is ready.
    pub(crate) ready_after: Duration,
}

impl Program {
    /// On the offline model, or on one that lives at an address.
    pub(crate) async fn start(home: &Path, model: Option<SocketAddr>) -> Fallible<Self> {
        std::fs::create_dir_all(home)?;
        if let Some(address) = model {
            let provider = json!({
                "api": "openai-completions", "baseUrl": format!("http://{address}/v1"), "apiKey": "none",
                "models": [{ "id": "mock" }],
            });
            let config = json!({
                "models": { "providers": { "mock": provider } },
                "agents": { "defaults": { "model": { "primary": "mock/mock" } } },
            });
            std::fs::write(home.join("config.json5"), config.to_string())?;
        }
        let address: SocketAddr = ([127, 0, 0, 1], free_port()?).into();
        let start = Instant::now();
        let child = Command::new(binary()?)
            .arg("--home")
            .arg(home)
            .args(["gateway", "run", "--port", &address.port().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut program = Self { child, address, token: String::new(), ready_after: Duration::ZERO };
        while !ready(address).await {
            if start.elapsed() > PATIENCE {
                return Err("the gateway was not ready after 30 seconds".into());
            }
            tokio::time::sleep(POLL).await;
        }
        program.ready_after = start.elapsed();
        let token = std::fs::read_to_string(home.join("credentials/local-token"))?;
        token.trim().clone_into(&mut program.token);
        Ok(program)
    }

    pub(crate) fn target(&self) -> Target {
        Target { address: self.address, model: "tidegate".to_owned(), token: self.token.clone() }
    }

    pub(crate) fn resident_mb(&self) -> f64 {
        resident_mb_of(self.child.id())
    }

    /// Its share of memory in kilobytes; what it shares with others counts in part.
    pub(crate) fn proportional_kb(&self) -> f64 {
        proportional_kb_of(self.child.id())
    }

    /// CPU of all its threads so far.
    pub(crate) fn cpu_ms(&self) -> f64 {
        cpu_seconds_of(self.child.id()) * 1e3
    }

    /// Asks it to stop, and waits until it did.
    pub(crate) async fn stop(&mut self) -> Fallible<()> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        let until = Instant::now() + PATIENCE;
        while self.child.try_wait()?.is_none() {
            if Instant::now() > until {
                return Err("the gateway did not stop".into());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Harmless after `stop`; otherwise nothing is left behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn ready(address: SocketAddr) -> bool {
    let asked = async {
        let mut connection = Connection::new(Stream::connect(address).await?)?;
        connection
            .send(format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes())
            .await?;
        let head = connection.head().await?;
        Fallible::Ok(head.is_some_and(|head| head.status() == 200))
    };
    timeout(ONE_LOOK, asked).await.is_ok_and(|ready| ready.unwrap_or(false))
}

fn free_port() -> Fallible<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn binary() -> Fallible<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("tidegate");
    if path.exists() {
        Ok(path)
    } else {
        Err(format!("{} is missing: make it with `make build`", path.display()).into())
    }
}
