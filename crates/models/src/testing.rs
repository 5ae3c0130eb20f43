//! What the fuzzer and the benchmarks drive from outside. Not part of the crate's promises.

use crate::frames::{self, Frame, Framing};

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
