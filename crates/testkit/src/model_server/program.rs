//! The server as a program, for scripts in other languages and for use by hand.

use std::path::PathBuf;

use tidegate_runtime::Shutdown;

use super::ModelServer;

/// The command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Program {
    port: u16,
    script: Option<PathBuf>,
    record: Option<PathBuf>,
}

impl Program {
    pub const USAGE: &str =
        "tidegate-testkit model-server [--port <port>] [--script <turns.json>] [--record <requests.jsonl>]

Plays the model vendors. Prints {\"baseUrl\": …} when it listens; stops on a signal.";

    pub fn from_args(arguments: &[String]) -> Option<Self> {
        let (mode, mut options) = arguments.split_first()?;
        if mode != "model-server" {
            return None;
        }
        let mut program = Self::default();
        while let [flag, value, rest @ ..] = options {
            match flag.as_str() {
                "--port" => program.port = value.parse().ok()?,
                "--script" => program.script = Some(value.into()),
                "--record" => program.record = Some(value.into()),
                _ => return None,
            }
            options = rest;
        }
        options.is_empty().then_some(program)
    }

    /// Serves until a signal. The error is one line for a person.
    pub async fn run(&self) -> Result<(), String> {
        let server =
            ModelServer::start_on(self.port).await.map_err(|error| format!("port {}: {error}", self.port))?;
        if let Some(path) = &self.script {
            let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let text = std::fs::read_to_string(path).map_err(|error| told(&error))?;
            server.read_script(&text).map_err(|error| told(&error))?;
        }
        if let Some(path) = &self.record {
            server.record_to(path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        crate::host::say(&serde_json::json!({"baseUrl": server.base_url()}).to_string());
        Shutdown::new().on_signal().await.map_err(|error| error.to_string())?;
        server.stop().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Program> {
        Program::from_args(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_is_read_whole_or_not_at_all() {
        let (script, record) = (Some("t.json".into()), Some("r.jsonl".into()));
        assert_eq!(
            read("model-server --port 7 --script t.json --record r.jsonl"),
            Some(Program { port: 7, script, record })
        );
        assert_eq!(read("model-server"), Some(Program::default()));
        for wrong in ["model-server --port", "model-server --port x", "model-server --what 1", "verb"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
