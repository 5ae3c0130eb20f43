//! A proxy that only repeats what it was asked.

use std::any::Any;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Mutex;

use crate::{ProxyStarter, TurnedAway};

/// Answers every connection with what it was asked for; the real one is crate `net`'s.
#[derive(Default)]
pub(crate) struct Echo {
    pub(crate) started: Mutex<Vec<Vec<String>>>,
}

struct Listening(std::path::PathBuf);

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl ProxyStarter for Echo {
    fn start(
        &self,
        socket: &Path,
        hosts: &[String],
        turned_away: TurnedAway,
    ) -> io::Result<Box<dyn Any + Send + Sync>> {
        self.started.lock().unwrap().push(hosts.to_vec());
        turned_away("nowhere.example", "it is not on the list");
        let listener = UnixListener::bind(socket)?;
        drop(tidegate_runtime::spawn_thread("echo", move || {
            for connection in listener.incoming() {
                let Ok(mut connection) = connection else { return };
                let mut asked = [0; 4096];
                let count = connection.read(&mut asked).unwrap();
                // A bridge that only tries whether anybody is here.
                if count == 0 {
                    continue;
                }
                let first =
                    String::from_utf8_lossy(&asked[..count]).lines().next().unwrap_or_default().to_owned();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{first}",
                    first.len()
                );
                connection.write_all(answer.as_bytes()).unwrap();
            }
        })?);
        Ok(Box::new(Listening(socket.to_owned())))
    }
}
