//! Cutting a body into frames, whatever pieces it arrives in. Bounded: no frame is larger than [`MOST_FRAME`].

mod aws;
mod lines;
mod sse;

#[cfg(test)]
pub(crate) use aws::encode;

use crate::failure::{Failure, FailureKind};

/// Most bytes of one frame.
pub(crate) const MOST_FRAME: usize = 16 << 20;

/// How a format cuts its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// One JSON value a line.
    Lines,
    /// Amazon's binary event stream.
    AwsEvents,
}

/// One piece of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// The event's name, where the framing has names.
    pub(crate) event: &'a str,
    pub(crate) data: &'a [u8],
}

/// Cuts. Bytes go in as they come; whole frames go to `each`.
pub(crate) trait Cutter: Send {
    fn push(&mut self, bytes: &[u8], each: &mut Each<'_>) -> Result<(), Failure>;

    /// The body ended: a last frame may have no terminator.
    fn end(&mut self, each: &mut Each<'_>) -> Result<(), Failure>;
}

/// What takes frames. An error ends the cutting.
pub(crate) type Each<'a> = dyn FnMut(Frame<'_>) -> Result<(), Failure> + 'a;

pub(crate) fn too_large() -> Failure {
    Failure::new(FailureKind::Broken, format!("the answer has a piece larger than {MOST_FRAME} bytes"))
}

/// A fresh cutter for one body.
pub(crate) fn cutter(framing: Framing) -> Box<dyn Cutter> {
    match framing {
        Framing::Sse => Box::new(sse::Sse::default()),
        Framing::Lines => Box::new(lines::Lines::default()),
        Framing::AwsEvents => Box::new(aws::AwsEvents::default()),
    }
}
