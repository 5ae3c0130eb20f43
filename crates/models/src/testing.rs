//! What the fuzzer, the benchmarks and recorded cases drive from outside. Not part of the crate's promises.

use tidegate_protocol::ThinkingLevel;

use crate::catalogue::{Api, ModelInfo, known};
use crate::frames::{self, Frame, Framing};
use crate::reading::Reading;
use crate::replay::Ids;
use crate::request::Request;
use crate::stream::ModelEvent;
use crate::wire::{self, Access, Target};
use crate::{cooldown, thinking};

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

/// The body of a request as it goes to a known model of that format.
///
/// # Panics
///
/// For a format that is not spoken on a wire.
#[expect(clippy::expect_used, reason = "for tests only")]
pub fn body(api: Api, request: &Request) -> Vec<u8> {
    let wire = wire::of(api).expect("a format of the wire");
    let target = Target { model: known_model(api), access: &Access::Open, now_ms: 0 };
    wire.prepare(request, &target).expect("a request that can be said").body
}

/// # Panics
///
/// For a format that no known model has.
#[expect(clippy::expect_used, reason = "for tests only")]
fn known_model(api: Api) -> &'static ModelInfo {
    let mut models = known().iter().flat_map(|provider| &provider.models);
    models.find(|model| model.api == api).expect("a known model of that format")
}

/// One answer being read in a format, as the program reads it.
pub struct Decoding(Reading);

impl Decoding {
    /// # Panics
    ///
    /// For a format that is not read from a wire.
    #[expect(clippy::expect_used, reason = "for tests only")]
    pub fn new(api: Api) -> Self {
        let wire = wire::of(api).expect("a format of the wire");
        Self(Reading::new(wire.as_ref(), known_model(api), &Request::default()))
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

/// How long a credential rests after so many failures in a row.
pub fn cooldown_ms(errors: u32) -> i64 {
    cooldown::cooldown_ms(errors)
}

/// The most tokens of an answer, and those of thinking within them.
pub fn thinking_budget(level: ThinkingLevel, base: u32, model_max: u32) -> (u32, u32) {
    let budget = thinking::budget(level, base, model_max);
    (budget.max_tokens, budget.thinking)
}

/// A tool-call id for formats that take letters and digits only, and for those that take nine of them.
pub fn tool_ids(id: &str) -> (String, String) {
    (Ids::Plain40.normal(id, false), Ids::Nine.normal(id, false))
}
