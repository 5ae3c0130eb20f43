//! The way from a container to the gateway's proxy. A container has no network; it sees the proxy's socket, and a bridge
//! inside leads there from a port of its loopback.
//!
//! The bridge is this very program, shown to the container together with the libraries it runs with here: the image need
//! not have them, and nothing has to be installed in it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::command::unspeakable;
use crate::begin::PROXY_PORT;
use crate::host::Supervisor;
use crate::script::quoted;
use crate::supervise::{BRIDGE, READY};

const SOCKET: &str = "/run/tidegate/proxy";
const PROGRAM: &str = "/run/tidegate/bridge";
const LIBRARIES: &str = "/run/tidegate/lib";

/// What the kernel says behind the name of a file that is not there any more.
const REPLACED: &str = " (deleted)";

/// What the programs of a container see when the bridge does not come up.
const NO_BRIDGE: &str = "tidegate: the way to the hosts of sandbox.allowHosts cannot be opened in this image";

/// What a container sees of it.
pub(super) struct WayOut {
    socket: PathBuf,
    mounts: Vec<(PathBuf, String)>,
    /// What starts the bridge.
    words: Vec<String>,
}

impl WayOut {
    /// The way to the proxy that listens at this socket.
    pub(super) fn new(supervisor: &Supervisor, socket: &Path) -> Result<Self, String> {
        if !cfg!(target_os = "linux") {
            return Err("network: allowlist needs the gateway on Linux".to_owned());
        }
        let maps =
            fs::read_to_string("/proc/self/maps").map_err(|error| format!("/proc/self/maps: {error}"))?;
        let libraries = libraries(&maps)?;
        let mut mounts =
            vec![(socket.to_owned(), SOCKET.to_owned()), (supervisor.program.clone(), PROGRAM.to_owned())];
        let mut words = Vec::new();
        for library in libraries {
            let Some(name) = library.file_name().and_then(|name| name.to_str()) else { continue };
            let inside = format!("{LIBRARIES}/{name}");
            if name.starts_with("ld-") {
                words.extend([inside.clone(), "--library-path".to_owned(), LIBRARIES.to_owned()]);
            }
            mounts.push((library, inside));
        }
        words.push(PROGRAM.to_owned());
        words.extend(supervisor.args.iter().map(|word| word.to_string_lossy().into_owned()));
        words.extend([BRIDGE.to_owned(), SOCKET.to_owned(), PROXY_PORT.to_string()]);
        if let Some(path) = unspeakable(mounts.iter().map(|(from, _)| from)) {
            return Err(format!("the path {} has a comma, a colon or a quote", path.display()));
        }
        Ok(Self { socket: socket.to_owned(), mounts, words })
    }

    /// What is shown, and where.
    pub(super) fn mounts(&self) -> &[(PathBuf, String)] {
        &self.mounts
    }

    /// What the shell in the container does first. It goes on when the bridge listens, which says so by closing what it
    /// writes to.
    pub(super) fn command(&self) -> String {
        let words: Vec<_> = self.words.iter().map(|word| quoted(word)).collect();
        format!(
            "[ \"$({} </dev/null 2>/dev/null &)\" = {READY} ] || {{ echo {} >&2; exit 125; }}\n",
            words.join(" "),
            quoted(NO_BRIDGE)
        )
    }

    /// Lets this user of a container connect. The socket lies in a folder that nobody else on this machine can enter.
    pub(super) fn open_to(&self, user: &str) -> io::Result<()> {
        let ours = rustix::process::geteuid().as_raw().to_string();
        if user.split(':').next() == Some(ours.as_str()) {
            return Ok(());
        }
        fs::set_permissions(&self.socket, fs::Permissions::from_mode(0o666))
    }
}

/// The libraries of this process, the loader among them; none if it was built without any. Those that were replaced since
/// it started are no files any more that a container could be shown.
fn libraries(maps: &str) -> Result<Vec<PathBuf>, String> {
    let mut found: Vec<PathBuf> = Vec::new();
    for line in maps.lines() {
        let Some(path) = line.find('/').map(|start| Path::new(&line[start..])) else { continue };
        let is_library = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
        if is_library && line.ends_with(REPLACED) {
            let gone = path.display().to_string();
            let gone = gone.trim_end_matches(REPLACED);
            return Err(format!(
                "the library {gone} was replaced while the gateway runs with it; restart the gateway"
            ));
        }
        if is_library && !found.iter().any(|known| known == path) {
            found.push(path.to_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_is_named_once_and_nothing_else() {
        let maps = "\
55d0-55d1 r--p 00000000 fd:00 12 /usr/bin/tidegate
7f00-7f01 r--p 00000000 fd:00 13 /usr/lib/x86_64-linux-gnu/libc.so.6
7f01-7f02 r-xp 00000000 fd:00 13 /usr/lib/x86_64-linux-gnu/libc.so.6
7f03-7f04 rw-p 00000000 00:00 0
7f05-7f06 r--p 00000000 fd:00 14 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2
7ffc-7ffd rw-p 00000000 00:00 0 [stack]";
        let found = ["libc.so.6", "ld-linux-x86-64.so.2"]
            .map(|name| Path::new("/usr/lib/x86_64-linux-gnu").join(name));
        assert_eq!(libraries(maps).unwrap(), found);
    }

    #[test]
    fn a_library_that_was_replaced_asks_for_a_restart() {
        let maps = "7f00-7f01 r--p 00000000 fd:00 13 /usr/lib/libc.so.6 (deleted)";
        let why = libraries(maps).unwrap_err();
        assert!(
            why.contains("/usr/lib/libc.so.6 was replaced") && why.ends_with("restart the gateway"),
            "{why}"
        );
        let program = "7f00-7f01 r--p 00000000 fd:00 13 /usr/bin/tidegate (deleted)";
        assert!(libraries(program).unwrap().is_empty());
    }
}
