//! Writing a conversation to a file: the same command does it that a person would call.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tidegate_runtime::catalogue::Language;

use crate::commands::sessions::format_of;
use crate::texts::chat as words;

/// Of a file whose name has no ending.
const USUAL: &str = "markdown";

/// What is exported, and from which home.
#[derive(Debug, Clone)]
pub(super) struct Export {
    pub(super) home: PathBuf,
    pub(super) session: String,
    pub(super) agent: Option<String>,
    pub(super) file: PathBuf,
}

impl Export {
    /// The same to this file, or to one of a name that is free.
    pub(super) fn to(&self, file: Option<&Path>) -> Self {
        let file = file.map_or_else(|| free_name(&self.session), Path::to_owned);
        Self { file, ..self.clone() }
    }

    fn words(&self) -> Vec<OsString> {
        // A value may look like an option, and so may the name of a conversation.
        let option = |name: &str, value: &OsStr| {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            word
        };
        let mut words: Vec<OsString> = ["sessions", "export"].map(OsString::from).to_vec();
        words.push(option("home", self.home.as_os_str()));
        words.push(option("format", OsStr::new(format_of(&self.file).unwrap_or(USUAL))));
        words.push(option("output", self.file.as_os_str()));
        words.extend(self.agent.as_ref().map(|agent| option("agent", OsStr::new(agent))));
        words.extend([OsString::from("--"), OsString::from(&self.session)]);
        words
    }
}

/// Writes it; answers the file's name, or what went wrong.
pub(super) fn export(language: Language, wanted: &Export) -> Result<String, String> {
    let file = &wanted.file;
    if file.as_os_str() == "-" {
        // There is no standard output beside the conversation.
        return Err(words::EXPORT_TO_FILE.in_language(language).to_owned());
    }
    if file.extension().is_some() && format_of(file).is_none() {
        return Err(words::EXPORT_ENDINGS.in_language(language).to_owned());
    }
    if file.exists() {
        return Err(words::EXPORT_EXISTS.fill(language, &[("file", &file.display())]));
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let done = Command::new(program).args(wanted.words()).stdin(Stdio::null()).output();
    let done = done.map_err(|error| error.to_string())?;
    if done.status.success() {
        return Ok(wanted.file.display().to_string());
    }
    Err(String::from_utf8_lossy(&done.stderr).lines().next().unwrap_or_default().to_owned())
}

/// A file of the current folder that is not there yet.
fn free_name(session: &str) -> PathBuf {
    let plain: String =
        session.chars().map(|c| if c.is_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let name = |count: u32| match count {
        1 => PathBuf::from(format!("{plain}.md")),
        count => PathBuf::from(format!("{plain}-{count}.md")),
    };
    (1..1_000).map(name).find(|file| !file.exists()).unwrap_or_else(|| name(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_is_told_before_anything_is() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there.md");
        std::fs::write(&there, "mine").unwrap();
        let home = folder.path();
        let export_to = |file: &Path| {
            let export = Export {
                home: home.to_owned(),
                session: "main".to_owned(),
                agent: None,
                file: file.to_owned(),
            };
            super::export(Language::English, &export)
        };
        assert!(export_to(Path::new("-")).unwrap_err().contains("give a name"));
        assert!(export_to(&folder.path().join("a.pdf")).unwrap_err().contains(".md, .jsonl or .html"));
        let failed = export_to(&there).unwrap_err();
        assert!(failed.contains("there already") && !failed.contains("--force"), "{failed}");
    }

    #[test]
    fn nothing_that_is_exported_is_read_as_an_option() {
        let export = Export {
            home: PathBuf::from("-h"),
            session: "--new".to_owned(),
            agent: Some("-a".to_owned()),
            file: PathBuf::new(),
        };
        let words = export.to(Some(Path::new("--x.html"))).words();
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        let expected = [
            "sessions",
            "export",
            "--home=-h",
            "--format=html",
            "--output=--x.html",
            "--agent=-a",
            "--",
            "--new",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn a_name_of_a_conversation_becomes_a_name_of_a_file() {
        assert_eq!(free_name("../a b/会话"), PathBuf::from("___a_b_会话.md"));
    }
}
