//! What of the machine a server's program is shown in its sandbox, besides the system's programs and its own folder.
//!
//! An operator says what it may read and write. What it needs to start at all is found out from its command: where the
//! program and what it links to are installed, and what its words name. Nobody's home and nothing of our own state is
//! ever shown by itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use tidegate_policy::{Besides, Confinement, Confiner, Profile};

/// What lies beside `bin` where something is installed and is needed to run it. `share` and the like may be anybody's.
const INSTALLED: [&str; 4] = ["bin", "lib", "lib64", "libexec"];
/// What the folder of a package has in it.
const PACKAGE: [&str; 4] = ["package.json", "pyproject.toml", "node_modules", "pyvenv.cfg"];
/// How far above a script its package may begin.
const LEVELS: usize = 4;
/// What belongs to everybody on the machine. Neither these nor what lies above them is shown by itself.
const COMMON: [&str; 6] = ["/tmp", "/run", "/var/run", "/proc", "/sys", "/dev"];
/// Those of them that hold sockets and devices: a word that names something in them shows nothing.
const LIVE: [&str; 5] = ["/run", "/var/run", "/proc", "/sys", "/dev"];
/// How the names of scripts and modules end, which read what lies beside them.
const MODULES: [&str; 16] = [
    "bash", "cjs", "cts", "dll", "jar", "js", "lua", "mjs", "mts", "php", "pl", "py", "pyz", "rb", "sh", "ts",
];

/// The confinement with everything that is shown in it, or why that cannot be.
pub(super) fn confinement(
    said: &Confinement,
    argv: &[String],
    env: &BTreeMap<String, String>,
    confiner: &dyn Confiner,
) -> Result<Confinement, String> {
    let mut held = said.clone();
    held.besides = Besides { read: real(&said.besides.read, said)?, write: real(&said.besides.write, said)? };
    if said.profile != Profile::Local {
        return Ok(held);
    }
    let home = env.get("HOME").map(PathBuf::from).and_then(|home| fs::canonicalize(home).ok());
    let may = |path: &PathBuf| {
        let private = home.as_ref().is_some_and(|home| home.starts_with(path));
        let ours = said.hidden.iter().any(|hidden| hidden.starts_with(path) || path.starts_with(hidden));
        let common = places(&COMMON).any(|place| place.starts_with(path));
        !private && !ours && !common
    };
    let named = argv.iter().skip(1).map(Path::new).filter(|path| path.is_absolute());
    let named = named.filter_map(|path| fs::canonicalize(path).ok());
    let words = named.filter_map(|path| named_by_word(path).into_iter().find(may));
    let needed: Vec<PathBuf> = needed(argv, env).into_iter().filter(may).chain(words).collect();
    for path in needed {
        if !confiner.shows(&held, &path) {
            held.besides.read.push(path);
        }
    }
    Ok(held)
}

/// As they are written and without links.
fn places(names: &[&'static str]) -> impl Iterator<Item = PathBuf> {
    let written: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    let real: Vec<PathBuf> = written.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    written.into_iter().chain(real)
}

/// The same paths without links. What is ours stays ours, whatever the configuration says.
fn real(paths: &[PathBuf], said: &Confinement) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in paths {
        let real = fs::canonicalize(path).map_err(|error| {
            format!("{}, which it is to be shown, cannot be found: {error}", path.display())
        })?;
        if said.hidden.iter().any(|hidden| real.starts_with(hidden)) {
            return Err(format!(
                "{} is part of the gateway's own state, which is shown to nobody",
                path.display()
            ));
        }
        found.push(real);
    }
    Ok(found)
}

/// What the program needs, without links.
fn needed(argv: &[String], env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let program = argv.first().and_then(|word| located(word, env));
    let interpreter = program.as_deref().and_then(|script| interpreter(script, env));
    for program in program.into_iter().chain(interpreter) {
        paths.extend(installation(&program));
        if let Ok(real) = fs::canonicalize(&program) {
            paths.extend(installation(&real));
            paths.extend(package(&real));
        }
    }
    paths
}

/// What a word of the command shows: the first of these that may be shown. A script brings its package or its folder
/// along, any other file only itself, and a socket or a device nothing.
fn named_by_word(path: PathBuf) -> Vec<PathBuf> {
    let live = places(&LIVE).any(|place| path.starts_with(place));
    if live || !(path.is_dir() || path.is_file()) {
        return Vec::new();
    }
    let mut may = Vec::new();
    if path.is_file() && is_module(&path) {
        may.extend(package(&path));
        may.extend(path.parent().map(Path::to_owned));
    }
    may.push(path);
    may
}

/// Whether a file is run by an interpreter.
fn is_module(file: &Path) -> bool {
    let named = file.extension().and_then(|end| end.to_str()).is_some_and(|end| MODULES.contains(&end));
    let marked = || {
        let mut head = [0; 2];
        fs::File::open(file).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *b"#!"
    };
    named || marked()
}

/// Where a program is found, links and all.
fn located(word: &str, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(PathBuf::from(word)).filter(|path| path.is_absolute());
    }
    let folders = env.get("PATH")?.split(':').filter(|folder| !folder.is_empty());
    folders.map(|folder| Path::new(folder).join(word)).find(|path| path.is_file())
}

/// The program that runs a script, as its first line says.
fn interpreter(script: &Path, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let mut head = [0; 256];
    let read = fs::File::open(script).ok()?.read(&mut head).ok()?;
    let line = head[..read].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    // `env` looks for the one that is meant.
    let meant = words.find(|word| !word.starts_with('-')).filter(|_| first.ends_with("/env"));
    located(meant.unwrap_or(first), env)
}

/// Where a program is installed, if it lies in a folder `bin`.
fn installation(program: &Path) -> Vec<PathBuf> {
    let Some(bin) = program.parent().filter(|folder| folder.ends_with("bin")) else { return Vec::new() };
    let Some(prefix) = bin.parent() else { return Vec::new() };
    if prefix.join("pyvenv.cfg").exists() {
        return vec![prefix.to_owned()];
    }
    INSTALLED.iter().map(|name| prefix.join(name)).filter(|folder| folder.is_dir()).collect()
}

/// The folder of the package that a file belongs to.
fn package(file: &Path) -> Option<PathBuf> {
    let mut top = None;
    for folder in file.ancestors().filter(|folder| folder.ends_with("node_modules")) {
        top = Some(folder.to_owned());
    }
    let is_package = |folder: &&Path| PACKAGE.iter().any(|name| folder.join(name).exists());
    top.or_else(|| file.ancestors().skip(1).take(LEVELS).find(is_package).map(Path::to_owned))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_policy::{Access, Limits, Network, RunError, Runner};

    use super::*;

    /// Shows what is below `/usr` by itself.
    struct System;

    impl Confiner for System {
        fn runner(&self, _confinement: &Confinement) -> Result<Arc<dyn Runner>, RunError> {
            Err(RunError::Ended)
        }

        fn shows(&self, _confinement: &Confinement, path: &Path) -> bool {
            path.starts_with("/usr")
        }
    }

    fn held(home: &Path, besides: Besides) -> Confinement {
        Confinement {
            profile: Profile::Local,
            place: "p".to_owned(),
            folder: home.join(".tidegate/work"),
            access: Access::ReadWrite,
            hidden: vec![home.join(".tidegate")],
            besides,
            network: Network::None,
            limits: Limits { memory: 1, processes: 1, disk: 1 },
        }
    }

    fn file(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn what_a_command_needs_is_shown_and_nobodys_home_or_our_state() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let path = format!("{}:/usr/bin", home.join(".node/bin").display());
        let env: BTreeMap<_, _> =
            [("HOME".to_owned(), home.display().to_string()), ("PATH".to_owned(), path)].into();
        for (path, text) in [
            (".node/bin/node", ""),
            (".node/lib/x", ""),
            (".node/share/secret", ""),
            (".node/bin/tool", "#!/usr/bin/env node\n"),
            ("elsewhere/tool", "#!/usr/bin/env -S node\n"),
            ("elsewhere/package.json", ""),
            ("venv/bin/python", ""),
            ("venv/pyvenv.cfg", ""),
            ("app/node_modules/a/node_modules/b/index.js", ""),
            ("srv/pkg/pyproject.toml", ""),
            ("srv/pkg/src/server.py", ""),
            ("srv/pkg/notes.db", ""),
            ("loose/server.py", ""),
            ("top.py", ""),
            (".tidegate/work/x", ""),
            (".tidegate/config.json5", ""),
        ] {
            file(&home.join(path), text);
        }
        let shown = |program: &str, words: &[&str]| {
            let words = words.iter().map(|word| match word.strip_prefix('~') {
                Some(rest) => format!("{}{rest}", home.display()),
                None => (*word).to_owned(),
            });
            let program = if program.contains('/') { home.join(program) } else { program.into() };
            let argv: Vec<String> = std::iter::once(program.display().to_string()).chain(words).collect();
            let said = held(&home, Besides::default());
            let held = confinement(&said, &argv, &env, &System).unwrap();
            assert!(held.besides.write.is_empty());
            let read = held.besides.read.into_iter();
            let mut read: Vec<_> =
                read.map(|path| path.strip_prefix(&home).unwrap().display().to_string()).collect();
            read.sort();
            read.dedup();
            read
        };
        assert_eq!(shown(".node/bin/node", &["-e", "x", "relative"]), [".node/bin", ".node/lib"]);
        assert_eq!(shown("tool", &[]), [".node/bin", ".node/lib"]);
        assert_eq!(shown("elsewhere/tool", &[]), [".node/bin", ".node/lib", "elsewhere"]);
        assert_eq!(shown("venv/bin/python", &["-m", "x"]), ["venv"]);
        assert_eq!(
            shown("venv/bin/python", &["~/app/node_modules/a/node_modules/b/index.js"]),
            ["app/node_modules", "venv"]
        );
        assert_eq!(
            shown("venv/bin/python", &["~/srv/pkg/src/server.py", "~/srv"]),
            ["srv", "srv/pkg", "venv"]
        );
        assert_eq!(shown("venv/bin/python", &["~/loose/server.py"]), ["loose", "venv"]);
        // Where the folder is private, the script is shown alone; a file that is no script always is.
        assert_eq!(shown("venv/bin/python", &["~/top.py"]), ["top.py", "venv"]);
        assert_eq!(shown("venv/bin/python", &["~/srv/pkg/notes.db"]), ["srv/pkg/notes.db", "venv"]);
        // Whoever names these has to say so in the configuration, and of the last one nothing helps.
        for private in ["~", "/", "~/.tidegate", "~/.tidegate/config.json5"] {
            assert_eq!(shown("venv/bin/python", &[private]), ["venv"], "{private}");
        }
    }

    #[test]
    fn what_everybody_shares_and_sockets_are_never_shown_by_themselves() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let env: BTreeMap<_, _> = [("HOME".to_owned(), "/home/nobody".to_owned())].into();
        let shown = |word: &Path| {
            let argv = ["/usr/bin/x".to_owned(), "--socket".to_owned(), word.display().to_string()];
            confinement(&held(&home, Besides::default()), &argv, &env, &System).unwrap().besides.read
        };
        let _listening = std::os::unix::net::UnixListener::bind(home.join("a.sock")).unwrap();
        let commons = COMMON.iter().chain(&["/", "/var", "/proc/self/status", "/dev/null", "/sys/kernel"]);
        for word in commons.map(PathBuf::from).chain([home.join("a.sock")]) {
            assert_eq!(shown(&word), Vec::<PathBuf>::new(), "{}", word.display());
        }
        // A script that lies in them is shown, and what lies beside it is not.
        let script = tempfile::Builder::new().suffix(".py").tempfile_in("/tmp").unwrap();
        assert_eq!(shown(script.path()), [script.path().canonicalize().unwrap()]);
    }

    #[test]
    fn what_an_operator_shows_has_to_be_there_and_is_never_our_state() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        file(&home.join("data/x"), "");
        file(&home.join(".tidegate/credentials/x"), "");
        std::os::unix::fs::symlink(home.join(".tidegate"), home.join("innocent")).unwrap();
        let asked = |path: &str| {
            let said = held(&home, Besides { read: Vec::new(), write: vec![home.join(path)] });
            confinement(&said, &[], &BTreeMap::new(), &System).map(|held| held.besides.write)
        };
        assert_eq!(asked("data"), Ok(vec![home.join("data")]));
        assert!(asked("nowhere").unwrap_err().contains("cannot be found"));
        for ours in [".tidegate", ".tidegate/credentials", "innocent", "innocent/credentials"] {
            assert!(asked(ours).unwrap_err().contains("own state"), "{ours}");
        }
    }
}
