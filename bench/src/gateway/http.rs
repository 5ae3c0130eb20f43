//! As much of HTTP/1.1 as driver and model need: a connection that stays, bodies with a length or in chunks.
//!
//! The one client of the program guards what leaves; a driver that shares two cores with what it measures wants to be as
//! cheap as can be instead.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::store::Fallible;

#[expect(clippy::disallowed_types, reason = "the driver reaches nothing but this machine")]
pub(crate) type Stream = tokio::net::TcpStream;

/// Bytes that came and were not used yet.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    buffer: Vec<u8>,
}

/// The head of a message, without its empty line.
pub(crate) struct Head {
    text: String,
}

impl Head {
    pub(crate) fn status(&self) -> u16 {
        self.text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.text.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Connection {
    pub(crate) fn new(stream: Stream) -> Fallible<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Fallible<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// The next head; `None` when the other side is gone.
    pub(crate) async fn head(&mut self) -> Fallible<Option<Head>> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.drain(..end + 4);
                return Ok(Some(Head { text }));
            }
            if self.more().await? == 0 {
                return Ok(None);
            }
        }
    }

    /// The body after a head; `seen` is shown every piece as it comes.
    pub(crate) async fn body(&mut self, head: &Head, mut seen: impl FnMut(&[u8])) -> Fallible<Vec<u8>> {
        if let Some(length) = head.value("content-length") {
            let length: usize = length.parse()?;
            while self.buffer.len() < length {
                self.need_more().await?;
            }
            let body: Vec<u8> = self.buffer.drain(..length).collect();
            seen(&body);
            return Ok(body);
        }
        let mut body = Vec::new();
        loop {
            let end = loop {
                match find(&self.buffer, b"\r\n") {
                    Some(end) => break end,
                    None => self.need_more().await?,
                }
            };
            let size = usize::from_str_radix(std::str::from_utf8(&self.buffer[..end])?.trim(), 16)?;
            while self.buffer.len() < end + 2 + size + 2 {
                self.need_more().await?;
            }
            let chunk = &self.buffer[end + 2..end + 2 + size];
            seen(chunk);
            body.extend_from_slice(chunk);
            self.buffer.drain(..end + 2 + size + 2);
            if size == 0 {
                return Ok(body);
            }
        }
    }

    async fn need_more(&mut self) -> Fallible<()> {
        if self.more().await? == 0 {
            Err("the connection ended in the middle of a message".into())
        } else {
            Ok(())
        }
    }

    async fn more(&mut self) -> Fallible<usize> {
        Ok(self.stream.read_buf(&mut self.buffer).await?)
    }
}

pub(crate) fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
