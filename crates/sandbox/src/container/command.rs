//! The words that make an engine hold something.

use std::path::{Path, PathBuf};

use tidegate_policy::{Access, Confinement, Network};

use super::probe::Facts;
use super::way_out::WayOut;

/// For `/run` and `/var/tmp`. They lie in memory, which is limited anyway.
const SMALL: &str = "rw,nosuid,nodev,mode=1777,size=64m";

/// Where the home of a place is inside.
pub(super) const HOME: &str = "/home/agent";

/// What a container is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Labels {
    pub(super) name: String,
    pub(super) place: String,
    /// Whose containers these are: which of the installations on this machine.
    pub(super) home: String,
}

/// The folders that a place has to itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Own {
    pub(super) tmp: PathBuf,
    pub(super) home: PathBuf,
}

/// How one container is made.
pub(super) struct Making<'a> {
    pub(super) facts: &'a Facts,
    pub(super) image: &'a str,
    pub(super) user: &'a str,
    pub(super) labels: &'a Labels,
    pub(super) confinement: &'a Confinement,
    /// What a place keeps between its programs.
    pub(super) own: &'a Own,
    /// What leads to the hosts that may be reached.
    pub(super) out: Option<&'a WayOut>,
    pub(super) terminal: bool,
    pub(super) input: bool,
}

impl Making<'_> {
    /// Everything up to the name of the image, with these variables handed on from the client's environment.
    pub(super) fn words<'v>(&self, values: impl Iterator<Item = &'v String>) -> Vec<String> {
        let mut words: Vec<String> = ["run", "--rm", "--pull", "never"].map(str::to_owned).into();
        self.name(&mut words);
        self.hold(&mut words);
        self.limit(&mut words);
        self.mount(&mut words);
        for (is_wanted, word) in
            [(self.facts.init, "--init"), (self.terminal, "--tty"), (self.input, "--interactive")]
        {
            if is_wanted {
                words.push(word.to_owned());
            }
        }
        two(&mut words, "--env", "LANG=C.UTF-8");
        for value in values {
            two(&mut words, "--env", value);
        }
        two(&mut words, "--workdir", "/");
        two(&mut words, "--entrypoint", "sh");
        words.push(self.image.to_owned());
        words
    }

    fn name(&self, words: &mut Vec<String>) {
        let Labels { name, place, home } = self.labels;
        two(words, "--name", name);
        two(words, "--hostname", "sandbox");
        two(words, "--label", "tidegate.sandbox=1");
        for (key, value) in [("place", place), ("home", home)] {
            two(words, "--label", &format!("tidegate.{key}={value}"));
        }
        words.push("--no-healthcheck".to_owned());
        two(words, "--log-driver", "none");
    }

    fn hold(&self, words: &mut Vec<String>) {
        if let Some(runtime) = &self.facts.runtime {
            two(words, "--runtime", runtime);
        }
        words.push("--read-only".to_owned());
        two(words, "--cap-drop", "ALL");
        two(words, "--security-opt", "no-new-privileges");
        if let Some(calls) = &self.facts.calls {
            two(words, "--security-opt", &format!("seccomp={}", calls.display()));
        }
        if self.facts.rootless {
            // Else the user of the workspace is nobody inside.
            two(words, "--userns", "keep-id");
        }
        two(words, "--user", self.user);
        if self.confinement.network != Network::Full {
            two(words, "--network", "none");
        }
    }

    fn limit(&self, words: &mut Vec<String>) {
        let limits = &self.confinement.limits;
        let memory = format!("{}b", limits.memory);
        two(words, "--memory", &memory);
        if self.facts.limits_swap {
            two(words, "--memory-swap", &memory);
        }
        two(words, "--pids-limit", &limits.processes.to_string());
        two(words, "--ulimit", "core=0");
        two(words, "--ulimit", &format!("fsize={}", limits.disk));
        for ulimit in &self.facts.ulimits {
            two(words, "--ulimit", ulimit);
        }
    }

    fn mount(&self, words: &mut Vec<String>) {
        let Confinement { folder, access, hidden, besides, .. } = self.confinement;
        for (from, to) in [(&self.own.tmp, "/tmp"), (&self.own.home, HOME)] {
            two(words, "--mount", &bound(from, Path::new(to), Access::ReadWrite));
        }
        for folder in ["/run", "/var/tmp"] {
            two(words, "--tmpfs", &format!("{folder}:{SMALL}"));
        }
        for (from, to) in self.out.map(WayOut::mounts).unwrap_or_default() {
            two(words, "--mount", &bound(from, Path::new(to), Access::ReadOnly));
        }
        for (paths, access) in [(&besides.read, Access::ReadOnly), (&besides.write, Access::ReadWrite)] {
            for path in paths {
                two(words, "--mount", &bound(path, path, access));
            }
        }
        two(words, "--mount", &bound(folder, folder, *access));
        let shown = |hidden: &&PathBuf| {
            let in_folder = hidden.starts_with(folder) && *hidden != folder;
            in_folder || besides.all().any(|shown| hidden.starts_with(shown))
        };
        for hidden in hidden.iter().filter(shown) {
            two(words, "--tmpfs", &format!("{}:{}", hidden.display(), self.facts.cover));
        }
    }
}

/// A path that can be told to an engine: it reads lists with commas and colons in them.
pub(super) fn unspeakable<'p>(paths: impl IntoIterator<Item = &'p PathBuf>) -> Option<&'p PathBuf> {
    let speakable = |path: &&PathBuf| {
        path.to_str()
            .is_some_and(|text| !text.contains([',', ':', '"', '\\']) && !text.contains(char::is_control))
    };
    paths.into_iter().find(|path| !speakable(path))
}

fn bound(from: &Path, to: &Path, access: Access) -> String {
    let read_only = match access {
        Access::ReadOnly => ",readonly",
        Access::ReadWrite => "",
    };
    format!("type=bind,source={},target={}{read_only}", from.display(), to.display())
}

fn two(words: &mut Vec<String>, option: &str, value: &str) {
    words.push(option.to_owned());
    words.push(value.to_owned());
}
