//! A configured command: its words filled from arguments, run as they are, never through a shell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tidegate_policy::exec::{Plan, PlanPlace};
use tidegate_policy::{Permitted, Preparation, Start, Subject, SubjectKind};

use super::template::Template;
use super::{CustomError, CustomSpec};
use crate::exec::{Disk, Order, Owner, Processes, folder, is_variable, plan_failure, result_of};
use crate::place::Place;
use crate::spec::ToolSpec;
use crate::tool::{Output, Tool, ToolFailure, Work};
use crate::web::unleaked_command;

/// A command as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program and its words; `{{name}}` in a word is filled with the argument of that name. A word whose optional
    /// argument is missing is left out.
    pub argv: Vec<String>,
    /// The arguments as JSON on its input.
    pub stdin_json: bool,
    /// Added to the environment that commands get.
    pub env: BTreeMap<String, String>,
    pub output: CommandOutput,
}

/// What a command writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CommandOutput {
    #[default]
    Text,
    /// One JSON value, which becomes the result's data.
    Json,
}

/// A tool that runs a configured command.
pub(super) struct CustomCommand {
    spec: ToolSpec,
    command: CommandSpec,
    words: Vec<Template>,
    timeout: Duration,
    processes: Arc<Processes>,
}

impl CustomCommand {
    pub(super) fn new(
        spec: &CustomSpec,
        command: &CommandSpec,
        processes: Arc<Processes>,
    ) -> Result<Self, CustomError> {
        // The command has its own time, so that what it wrote until then is not lost.
        let tool_spec = ToolSpec { timeout: None, ..spec.tool_spec()? };
        let program = command.argv.first().ok_or(CustomError::NoProgram)?;
        if program.is_empty()
            || program.contains("{{")
            || (program.contains('/') && !program.starts_with('/'))
        {
            return Err(CustomError::Program);
        }
        if let Some(name) = command.env.keys().find(|name| !is_variable(name)) {
            return Err(CustomError::Variable(name.clone()));
        }
        let schema = &tool_spec.input_schema;
        let words =
            command.argv.iter().map(|word| Template::read(word, schema)).collect::<Result<Vec<_>, _>>()?;
        let scripted = |word: &usize| words[*word].has_places() && is_script(&command.argv, *word);
        if let Some(word) = (1..words.len()).find(scripted) {
            return Err(CustomError::Script { word });
        }
        Ok(Self { spec: tool_spec, command: command.clone(), words, timeout: spec.timeout, processes })
    }

    fn argv(&self, args: &Value) -> Result<Vec<String>, ToolFailure> {
        let filled = self.words.iter().map(|word| word.word(args, &self.spec.input_schema));
        let words = filled.collect::<Result<Vec<_>, _>>();
        let words = words.map_err(|error| ToolFailure::arguments(error.to_string()))?;
        Ok(words.into_iter().flatten().collect())
    }
}

#[async_trait]
impl Tool for CustomCommand {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, args: &Value, place: &Place) -> Result<Preparation, ToolFailure> {
        let argv = self.argv(args)?;
        unleaked_command(place, args).await?;
        let mut env = place.env.clone();
        env.extend(self.command.env.clone());
        let place = place.clone();
        let looking = tidegate_runtime::spawn_blocking("prepare command", move || prepare(argv, env, &place));
        looking.join().await.map_err(|end| ToolFailure::execution(end.to_string()))?
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        let plan = permitted.plan().ok_or_else(|| ToolFailure::execution("the call has no command"))?;
        folder::check(permitted, work.place).await?;
        let order = Order {
            owner: Owner::of(permitted.prepared().requester()),
            command: self.spec.name.clone(),
            start: Start { pty: None, input: self.command.stdin_json },
            timeout: self.timeout,
        };
        let foreground = self.processes.start(work.runner, plan, order).await?;
        let started = foreground.started();
        let input = permitted.prepared().args().to_string();
        let feed = async {
            if self.command.stdin_json {
                // A program need not read its input; when it ended without, that is its answer.
                let _ = started.running.write(input.as_bytes()).await;
                let _ = started.running.close_input().await;
            }
            std::future::pending::<()>().await;
        };
        let end = tokio::select! {
            end = started.wait() => end,
            () = work.cancel.cancelled() => {
                started.stop().await;
                return Err(ToolFailure::execution("it was stopped"));
            }
            () = feed => return Err(ToolFailure::execution("it was given its input for ever")),
        };
        let output = result_of(&started.output, &end)?;
        match self.command.output {
            CommandOutput::Text => Ok(output),
            CommandOutput::Json => as_json(output),
        }
    }
}

fn prepare(
    argv: Vec<String>,
    env: BTreeMap<String, String>,
    place: &Place,
) -> Result<Preparation, ToolFailure> {
    let folder = folder::find(place, None)?;
    // What the operator configured is no addition of the call.
    let plan_place = PlanPlace { cwd: folder.path.clone(), env, added_env: BTreeMap::new() };
    let plan = Plan::of_argv(argv, plan_place, &Disk::new(place)).map_err(|error| plan_failure(&error))?;
    Ok(Preparation {
        subjects: vec![Subject::new(SubjectKind::Path, folder.relative.clone())],
        plan: Some(plan),
        conditions: vec![folder.condition()],
        ..Preparation::default()
    })
}

/// The value that was written to stdout.
fn as_json(output: Output) -> Result<Output, ToolFailure> {
    let stdout = output.data.as_ref().and_then(|data| data["stdout"].as_str()).unwrap_or_default();
    match serde_json::from_str(stdout) {
        Ok(value) => Ok(Output { data: Some(value), ..output }),
        Err(error) => {
            let message = format!("what it wrote is not JSON: {error}");
            Err(ToolFailure { output: Some(Box::new(output)), ..ToolFailure::execution(message) })
        }
    }
}

/// Whether an interpreter would read this word as a script, wherever in the command it is called: `env sh -c …` counts too.
fn is_script(argv: &[String], word: usize) -> bool {
    (0..word).any(|at| interprets(&argv[at], &argv[word - 1], word - 1 - at))
}

/// Whether a program reads the word that follows this flag as a script. `place` is that of the flag behind the program.
fn interprets(program: &str, flag: &str, place: usize) -> bool {
    let name = program.rsplit('/').next().unwrap_or_default();
    let (letters, words): (&str, &[&str]) = match name
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
    {
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "fish" | "ash" | "python" | "pypy" => ("c", &["--command"]),
        "perl" | "ruby" | "lua" | "Rscript" => ("eE", &[]),
        "node" | "bun" | "deno" => ("ep", &["--eval", "--print", "eval"]),
        "php" => ("rBRE", &["--run"]),
        // Their first word is one.
        "awk" | "gawk" | "mawk" | "nawk" | "sed" | "eval" => return place == 0,
        _ => return false,
    };
    // Letters can stand together, as in `-lc`.
    let together = flag.strip_prefix('-').filter(|together| !together.starts_with('-'));
    place > 0
        && (words.contains(&flag) || together.is_some_and(|flags| flags.contains(|c| letters.contains(c))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_protocol::Risk;
    use tidegate_runtime::SystemClock;

    use super::*;
    use crate::custom::CustomKind;
    use crate::exec::ProcessLimits;

    fn tool(argv: &[&str]) -> Result<CustomCommand, CustomError> {
        let command = CommandSpec {
            argv: argv.iter().map(ToString::to_string).collect(),
            stdin_json: false,
            env: BTreeMap::new(),
            output: CommandOutput::Text,
        };
        let spec = CustomSpec {
            name: "weather".into(),
            description: "Tells the weather.".into(),
            input_schema: json!({ "type": "object", "properties": { "city": { "type": "string" }, "unit": {} } }),
            risk: Risk::Execute,
            idempotent: true,
            timeout: Duration::from_secs(8),
            kind: CustomKind::Command(command.clone()),
        };
        CustomCommand::new(&spec, &command, Processes::new(ProcessLimits::default(), Arc::new(SystemClock)))
    }

    #[test]
    fn a_value_stays_one_word_and_a_missing_one_takes_its_word_along() {
        let tool = tool(&["weather", "--unit={{unit}}", "{{city}}"]).unwrap();
        assert_eq!(
            tool.argv(&json!({ "city": "x'; rm -rf ~ $(id)" })).unwrap(),
            ["weather", "x'; rm -rf ~ $(id)"]
        );
        assert_eq!(
            tool.argv(&json!({ "city": "a b", "unit": "C" })).unwrap(),
            ["weather", "--unit=C", "a b"]
        );
        assert!(tool.argv(&json!({ "city": "--help" })).is_err());
    }

    #[test]
    fn the_program_is_the_operators() {
        assert_eq!(tool(&[]).err(), Some(CustomError::NoProgram));
        for program in ["", "{{city}}", "./tool", "bin/tool", "/bin/{{city}}"] {
            assert_eq!(tool(&[program]).err(), Some(CustomError::Program), "{program}");
        }
        assert!(tool(&["/usr/bin/printf", "{{city}}"]).is_ok());
    }

    #[test]
    fn no_argument_becomes_part_of_a_script() {
        for argv in [
            &["sh", "-c", "echo {{city}}"] as &[&str],
            &["/bin/bash", "-e", "-c", "{{city}}"],
            &["python3.11", "-c", "print('{{city}}')"],
            &["node", "--eval", "{{city}}"],
            &["awk", "{{city}}"],
            &["bash", "-lc", "echo {{city}}"],
            &["perl", "-ne", "{{city}}"],
            &["ruby", "-rset", "-e", "{{city}}"],
            &["env", "-i", "/bin/sh", "-c", "{{city}}"],
            &["timeout", "5", "python3", "-Ic", "{{city}}"],
        ] {
            assert!(matches!(tool(argv).err(), Some(CustomError::Script { .. })), "{argv:?}");
        }
        assert!(tool(&["sh", "-c", "echo \"$1\"", "sh", "{{city}}"]).is_ok());
        assert!(tool(&["python3", "tool.py", "{{city}}"]).is_ok());
    }

    #[test]
    fn an_argument_the_schema_does_not_name_is_refused() {
        assert!(matches!(tool(&["a", "{{other}}"]).err(), Some(CustomError::Template(_))));
        assert_eq!(tool(&["a"]).unwrap().spec().input_schema["additionalProperties"], false);
    }
}
