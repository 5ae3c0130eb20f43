//! `CONNECT`: bytes in both directions, unseen.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tidegate_runtime::spawn;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::answer::Body;
use super::{Desk, Seat};
use crate::error::NetError;
use crate::guard::Address;

/// Bytes that are on their way in one direction.
const CHUNK: usize = 16 << 10;

#[expect(
    clippy::disallowed_types,
    reason = "the one place that opens a connection which is not ours to read"
)]
type Stream = tokio::net::TcpStream;

impl Desk {
    /// Connects to an address of the host that was judged, then answers: a program learns from the answer whether its
    /// tunnel is there.
    pub(super) async fn tunnel(
        &self,
        address: &Address,
        request: Request<Incoming>,
        seat: Seat,
    ) -> Result<Response<Body>, NetError> {
        let at = self.client.guard().check(address).await?;
        let host = connect(address.host(), &at, self.limits.connect).await?;
        self.passed.fetch_add(1, Ordering::Relaxed);
        let (stop, idle) = (self.stop.clone(), self.limits.idle);
        spawn("egress.tunnel", async move {
            let _seat = seat;
            let Ok(upgraded) = hyper::upgrade::on(request).await else { return };
            tokio::select! {
                () = between(TokioIo::new(upgraded), host, idle) => {}
                () = stop.requested() => {}
            }
        });
        Ok(Response::new(Empty::new().map_err(|never| match never {}).boxed()))
    }
}

/// The first address that answers.
async fn connect(host: &str, at: &[SocketAddr], patience: Duration) -> Result<Stream, NetError> {
    let attempts = async {
        let mut cause = "it has no address".to_owned();
        for address in at {
            match Stream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => cause = error.to_string(),
            }
        }
        Err(NetError::Unreachable { host: host.to_owned(), cause })
    };
    let late = || NetError::ConnectTimeout { host: host.to_owned(), seconds: patience.as_secs() };
    tokio::time::timeout(patience, attempts).await.unwrap_or_else(|_| Err(late()))
}

/// Carries bytes until both sides are done or nothing moved for so long.
async fn between(
    program: impl AsyncRead + AsyncWrite + Unpin,
    host: impl AsyncRead + AsyncWrite + Unpin,
    idle: Duration,
) {
    let moved = AtomicU64::new(0);
    let (program_out, program_in) = tokio::io::split(program);
    let (host_out, host_in) = tokio::io::split(host);
    let both = async {
        tokio::join!(carry(program_out, host_in, &moved), carry(host_out, program_in, &moved));
    };
    tokio::select! {
        () = both => {}
        () = stalled(&moved, idle) => {}
    }
}

async fn carry(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, moved: &AtomicU64) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        moved.fetch_add(1, Ordering::Relaxed);
        if to.write_all(&chunk[..read]).await.is_err() {
            break;
        }
        moved.fetch_add(1, Ordering::Relaxed);
    }
    // The other direction may go on.
    let _ = to.shutdown().await;
}

/// Returns after a time in which nothing moved.
async fn stalled(moved: &AtomicU64, idle: Duration) {
    let mut seen = None;
    loop {
        let now = moved.load(Ordering::Relaxed);
        if seen == Some(now) {
            return;
        }
        seen = Some(now);
        tokio::time::sleep(idle).await;
    }
}
