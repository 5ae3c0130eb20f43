//! Killing: starts `tidegate-testkit` with a fault armed, waits for its death and keeps what it had acknowledged.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::script::{Ack, Verb};
use crate::stores::Location;

const SIGKILL: i32 = 9;

/// On which side of its commit a verb dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Before,
    After,
}

impl Side {
    /// The fault point of a verb.
    pub fn point(self, verb: Verb) -> String {
        let side = match self {
            Self::Before => "before_commit",
            Self::After => "after_commit",
        };
        format!("storage.{}.{side}", verb.as_str())
    }
}

/// A process to be started: which script, on which store.
#[derive(Debug)]
pub struct Victim<'a> {
    pub program: &'a Path,
    pub location: &'a Location,
    pub tenant: &'a str,
    pub verb: Verb,
    pub seed: u64,
}

impl Victim<'_> {
    /// Runs until the verb's fault point was passed for the `hit`th time, and returns what was acknowledged before.
    pub fn kill_at(&self, side: Side, hit: usize) -> Vec<Ack> {
        let point = side.point(self.verb);
        let output = self.run(&[("TIDEGATE_FAULT", &format!("{point}=kill@{hit}"))]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(SIGKILL), "{point} was not passed {hit} times: {told}");
        acknowledged(&output)
    }

    /// Runs to the end; the fault points it passes are appended to `trace`.
    pub fn trace(&self, trace: &Path) -> Vec<Ack> {
        let output = self.run(&[("TIDEGATE_FAULT_TRACE", &trace.display().to_string())]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        acknowledged(&output)
    }

    fn run(&self, env: &[(&str, &str)]) -> Output {
        Command::new(self.program)
            .args(self.location.args())
            .args(["verb", self.verb.as_str(), "--seed", &self.seed.to_string(), "--tenant", self.tenant])
            .env_remove("TIDEGATE_FAULT")
            .env_remove("TIDEGATE_FAULT_TRACE")
            .envs(env.iter().copied())
            .output()
            .expect("tidegate-testkit starts")
    }
}

/// The lines a process printed, each after a verb had returned. A line torn by its death was never said.
fn acknowledged(output: &Output) -> Vec<Ack> {
    let text = String::from_utf8_lossy(&output.stdout);
    let whole = text.rsplit_once('\n').map_or("", |(whole, _torn)| whole);
    whole.lines().map(parse_ack).collect()
}

/// One line of the program's output.
pub fn print_ack(ack: &Ack) -> String {
    serde_json::json!({"verb": ack.verb.as_str(), "answer": ack.answer}).to_string()
}

fn parse_ack(line: &str) -> Ack {
    let line: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
    Ack {
        verb: line["verb"].as_str().and_then(Verb::parse).expect("a line names its verb"),
        answer: line["answer"].as_str().expect("a line has an answer").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_torn_by_death_was_never_said() {
        let ack = |verb: Verb| Ack { verb, answer: "Ok(\"\n\")".to_owned() };
        let line = print_ack(&ack(Verb::Accept));
        assert_eq!(line.lines().count(), 1);
        let stdout = format!("{line}\n{}", &line[..10]);
        let status = std::process::ExitStatus::from_raw(SIGKILL);
        let output = Output { status, stdout: stdout.into_bytes(), stderr: Vec::new() };
        assert_eq!(acknowledged(&output), [ack(Verb::Accept)]);
    }

    #[test]
    fn every_verb_comes_back_from_its_name() {
        for verb in Verb::ALL {
            assert_eq!(Verb::parse(verb.as_str()), Some(*verb));
        }
        assert_eq!(Side::After.point(Verb::ClaimSend), "storage.claim_send.after_commit");
    }
}
