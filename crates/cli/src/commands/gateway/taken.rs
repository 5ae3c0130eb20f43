//! A port that is taken: by whom, and which one is free.
//!
//! Linux tells in `/proc` which process listens. Where that cannot be read, the port itself is asked whether a gateway
//! answers there. Nothing here is certain a moment later; it is for the person who has to choose.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tidegate_client::{Client, Token};
use tidegate_protocol::ErrorCode;
use tidegate_runtime::catalogue::Language;

use crate::app::App;
use crate::failure::{Failure, Message};
use crate::texts::gateway as words;

/// Ports after the taken one that are looked at.
const NEXT_PORTS: u16 = 20;
/// How long whoever listens there may take to say that it is a gateway.
const ANSWER: Duration = Duration::from_millis(500);
/// A listening socket in the tables of the system.
const LISTENING: &str = "0A";

/// Who listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Holder {
    Gateway {
        pid: u32,
        home: PathBuf,
    },
    Program {
        pid: u32,
        name: String,
    },
    /// Its process is another user's, and cannot be looked at.
    OfUser(u32),
    /// It answers as a gateway does; nothing else is known.
    SomeGateway,
    Unknown,
}

/// What to tell whoever wanted the port. `command` is what they typed.
pub(super) async fn taken(app: &App, command: &str, address: SocketAddr) -> Failure {
    let holder = match holder_in(Path::new("/proc"), address) {
        Some(holder) => holder,
        None if answers_as_gateway(address).await => Holder::SomeGateway,
        None => Holder::Unknown,
    };
    let free = free_port(address).unwrap_or_default();
    let say = |language| {
        let values: [(&str, &dyn std::fmt::Display); 5] = [
            ("holder", &holder.told(language)),
            ("address", &address),
            ("program", &app.program),
            ("command", &command),
            ("free", &free),
        ];
        words::PORT_TAKEN.fill(language, &values)
    };
    Failure::new(ErrorCode::PortInUse, Message { en: say(Language::English), zh: say(Language::Chinese) })
}

impl Holder {
    fn told(&self, language: Language) -> String {
        match self {
            Self::Gateway { pid, home } => {
                words::BY_GATEWAY.fill(language, &[("home", &home.display()), ("pid", pid)])
            }
            Self::Program { pid, name } => words::BY_PROGRAM.fill(language, &[("name", name), ("pid", pid)]),
            Self::OfUser(uid) => words::BY_USER.fill(language, &[("uid", uid)]),
            Self::SomeGateway => words::BY_SOME_GATEWAY.in_language(language).to_owned(),
            Self::Unknown => words::BY_SOMEBODY.in_language(language).to_owned(),
        }
    }
}

/// A listening socket as the system lists it.
#[derive(Debug, PartialEq, Eq)]
struct Listening {
    inode: u64,
    uid: u32,
}

/// Looks through the tables of the system; `None` where they say nothing about the port.
fn holder_in(proc: &Path, address: SocketAddr) -> Option<Holder> {
    let found = ["net/tcp", "net/tcp6"].into_iter().find_map(|table| {
        let text = fs::read_to_string(proc.join(table)).ok()?;
        text.lines().find_map(|line| listening_on(line, address))
    })?;
    let socket = format!("socket:[{}]", found.inode);
    let processes = fs::read_dir(proc).ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let process = proc.join(pid.to_string());
        let open = open_files(&process);
        if !open.iter().any(|file| file.as_os_str() == socket.as_str()) {
            continue;
        }
        let home = open.iter().find(|file| file.ends_with("service/home.lock"));
        return Some(match home.and_then(|lock| lock.parent()?.parent()) {
            Some(home) => Holder::Gateway { pid, home: home.to_owned() },
            None => Holder::Program { pid, name: name_of(&process) },
        });
    }
    Some(Holder::OfUser(found.uid))
}

/// Reads a line of the table: where it listens, and which socket it is.
fn listening_on(line: &str, address: SocketAddr) -> Option<Listening> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [_, local, _, LISTENING, _, _, _, uid, _, inode, ..] = fields[..] else { return None };
    let (ip, port) = local.split_once(':')?;
    let everywhere = ip.bytes().all(|digit| digit == b'0') || address.ip().is_unspecified();
    let there = u16::from_str_radix(port, 16) == Ok(address.port());
    (there && (everywhere || is_ip(ip, address.ip())))
        .then_some(Listening { inode: inode.parse().ok()?, uid: uid.parse().ok()? })
}

/// The tables have addresses as the words of memory they are.
fn is_ip(hex: &str, ip: IpAddr) -> bool {
    let IpAddr::V4(ip) = ip else { return false };
    let word = format!("{:08X}", u32::from_ne_bytes(ip.octets()));
    // A socket for both kinds of addresses has the older kind at its end.
    hex == word || hex.ends_with(&format!("0000FFFF{word}")) || hex.ends_with(&format!("FFFF0000{word}"))
}

fn open_files(process: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(process.join("fd")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).collect()
}

fn name_of(process: &Path) -> String {
    let program = fs::read_link(process.join("exe")).ok();
    let name = program.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let comm = || fs::read_to_string(process.join("comm")).unwrap_or_default().trim().to_owned();
    name.unwrap_or_else(comm)
}

async fn answers_as_gateway(address: SocketAddr) -> bool {
    let ip = if address.ip().is_unspecified() { Ipv4Addr::LOCALHOST.into() } else { address.ip() };
    let client = Client::http((ip, address.port()).into(), Token::new(""));
    client.get::<Value>("/health", ANSWER).await.is_ok_and(|health| health["service"] == "tidegate")
}

/// A port near the wanted one that nobody has now, or any.
fn free_port(address: SocketAddr) -> Option<u16> {
    let try_port = |port: u16| {
        let listener = TcpListener::bind((address.ip(), port)).ok()?;
        Some(listener.local_addr().ok()?.port())
    };
    (1..=NEXT_PORTS)
        .filter_map(|step| address.port().checked_add(step))
        .find_map(try_port)
        .or_else(|| try_port(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";

    #[cfg(target_endian = "little")]
    #[test]
    fn the_line_of_a_listening_socket_is_found_and_no_other() {
        let line = |local: &str, state: &str| {
            format!(
                "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0"
            )
        };
        let wanted: SocketAddr = "127.0.0.1:18789".parse().unwrap();
        let found = Some(Listening { inode: 4711, uid: 1000 });
        assert_eq!(listening_on(&line("0100007F:4965", "0A"), wanted), found);
        assert_eq!(listening_on(&line("00000000:4965", "0A"), wanted), found, "everywhere is here too");
        assert_eq!(
            listening_on(&line("00000000000000000000000000000000:4965", "0A"), wanted),
            found,
            "and so is everywhere of the newer kind"
        );
        assert_eq!(listening_on(&line("0000000000000000FFFF00000100007F:4965", "0A"), wanted), found);
        assert_eq!(listening_on(&line("0100007F:4966", "0A"), wanted), None, "another port");
        assert_eq!(listening_on(&line("0200007F:4965", "0A"), wanted), None, "another address");
        assert_eq!(listening_on(&line("0100007F:4965", "01"), wanted), None, "a connection");
        assert_eq!(listening_on(HEAD, wanted), None);
        assert_eq!(listening_on("", wanted), None);
    }

    #[test]
    fn a_listener_of_this_process_is_found_by_name_and_number() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let Some(Holder::Program { pid, name }) = holder_in(Path::new("/proc"), taken.local_addr().unwrap())
        else {
            panic!("nobody was found")
        };
        assert_eq!(pid, std::process::id());
        assert!(!name.is_empty());
    }

    #[test]
    fn where_the_tables_cannot_be_read_nobody_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let address = "127.0.0.1:18789".parse().unwrap();
        assert_eq!(holder_in(folder.path(), address), None);
        assert_eq!(holder_in(Path::new("/nowhere"), address), None);
    }

    #[test]
    fn the_port_that_is_offered_is_free() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let free = free_port(address).unwrap();
        assert_ne!(free, address.port());
        TcpListener::bind(("127.0.0.1", free)).expect("it is free");
    }
}
