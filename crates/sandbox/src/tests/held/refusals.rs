//! Somebody who wants to know what programs are refused is told, and they are held as ever.

use std::sync::{Arc, Mutex};

use tidegate_policy::{Exit, Refusal, Refused, Running as _, Sink, Start, Stream};

use super::{Held, all};
use crate::begin::begin;

#[derive(Default)]
struct Seen(Mutex<Vec<Refusal>>);

impl Sink for Seen {
    fn write(&self, _stream: Stream, _bytes: &[u8]) {}

    fn wants_refusals(&self) -> bool {
        true
    }

    fn refused(&self, refusal: &Refusal) {
        self.0.lock().unwrap().push(refusal.clone());
    }
}

async fn refused(held: &Held, program: &str) -> (Exit, Vec<Refusal>) {
    let seen = Arc::new(Seen::default());
    let plan = held.plan(&["python3", "-c", program], "none");
    let way = held.backend.way(&held.confinement).unwrap();
    let running = begin(way.as_ref(), &plan, Start::default(), seen.clone()).await.unwrap();
    let exit = running.wait().await;
    let seen = seen.0.lock().unwrap().clone();
    (exit, seen)
}

#[tokio::test]
async fn every_way_of_holding_tells_what_it_refused() {
    for held in all().await {
        let name = held.backend.name();
        let secret = held.base().join("state/secret").display().to_string();
        let program = format!(
            "
import ctypes, os, socket, subprocess, threading
def attempt(what):
    try: what(); print('worked')
    except OSError: pass
attempt(lambda: open('{secret}'))
attempt(lambda: open('/usr/written', 'w'))
attempt(lambda: socket.create_connection(('192.0.2.1', 80), 2))
ctypes.CDLL(None).mount(b'none', b'/mnt', b'tmpfs', 0, None)
thread = threading.Thread(target=lambda: attempt(lambda: os.mkdir('/usr/by-a-thread')))
thread.start(); thread.join()
subprocess.run(['sh', '-c', 'echo x > /usr/by-a-child'])
open('kept', 'w').write('x')
raise SystemExit(7)"
        );
        let (exit, seen) = refused(&held, &program).await;
        assert_eq!(exit, Exit::Code(7), "{name}: {seen:?}");
        let wanted = |path: &str| {
            seen.iter()
                .any(|refusal| matches!(&refusal.what, Refused::Path { path: found, .. } if found == path))
        };
        for path in [&secret, "/usr/written", "/usr/by-a-thread", "/usr/by-a-child"] {
            assert!(wanted(path), "{name}: {path} is not among {seen:?}");
        }
        assert!(seen.iter().any(|refusal| matches!(refusal.what, Refused::Address(_))), "{name}: {seen:?}");
        assert!(seen.iter().any(|refusal| refusal.call == "mount"), "{name}: {seen:?}");
        assert!(held.work().join("kept").exists() && !wanted("kept"), "{name}");
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "canary");
    }
}

#[tokio::test]
async fn a_program_that_is_looked_at_ends_like_any_other() {
    for held in all().await {
        let (exit, _) = refused(&held, "import os, signal; os.kill(os.getpid(), signal.SIGTERM)").await;
        assert_eq!(exit, Exit::Signal(15), "{}", held.backend.name());
        let leaves = "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True)";
        assert_eq!(refused(&held, leaves).await.0, Exit::Code(0), "{}", held.backend.name());
    }
}
