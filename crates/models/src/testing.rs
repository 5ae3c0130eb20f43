//! What the fuzzer and the benchmarks drive from outside. Not part of the crate's promises.

use crate::catalogue::{Api, known};
use crate::frames::{self, Frame, Framing};
use crate::reading::Reading;
use crate::request::Request;
use crate::stream::ModelEvent;
use crate::wire;

/// The named frames of a body of server-sent events that arrives in these pieces, or why it is refused.
pub fn sse_frames<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut found = Vec::new();
    let mut cutter = frames::cutter(Framing::Sse);
    let mut each = |frame: Frame<'_>| {
        found.push((frame.event.to_owned(), frame.data.to_owned()));
        Ok(())
    };
    let pushed = chunks.into_iter().try_for_each(|chunk| cutter.push(chunk, &mut each));
    pushed.and_then(|()| cutter.end(&mut each)).map_err(|failure| failure.message)?;
    Ok(found)
}

/// One answer being read in a format, as the program reads it.
pub struct Decoding(Reading);

impl Decoding {
    /// # Panics
    ///
    /// For a format that is not read from a wire.
    #[expect(clippy::expect_used, reason = "for tests only")]
    pub fn new(api: Api) -> Self {
        let model = known().iter().flat_map(|provider| &provider.models).find(|model| model.api == api);
        let model = model.expect("a known model of that format");
        let wire = wire::of(api).expect("a format of the wire");
        Self(Reading::new(wire.as_ref(), model, &Request::default()))
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    pub fn end(&mut self) {
        self.0.end();
    }

    pub fn next_event(&mut self) -> Option<ModelEvent> {
        self.0.next_event()
    }
}
