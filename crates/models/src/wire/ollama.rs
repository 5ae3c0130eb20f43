//! To be built.

use super::{Decoder, Prepared, Target, Wire};
use crate::catalogue::ModelInfo;
use crate::failure::{Failure, FailureKind};
use crate::frames::Framing;
use crate::request::Request;

pub(crate) struct Ollama;

impl Wire for Ollama {
    fn prepare(&self, _request: &Request, _target: &Target<'_>) -> Result<Prepared, Failure> {
        Err(Failure::new(FailureKind::Format, "not built"))
    }

    fn framing(&self) -> Framing {
        Framing::Sse
    }

    fn decoder(&self, _model: &ModelInfo, _request: &Request) -> Box<dyn Decoder> {
        struct Nothing;
        impl Decoder for Nothing {
            fn frame(&mut self, _: crate::frames::Frame<'_>, _: &mut super::Emit) -> Result<(), Failure> {
                Ok(())
            }
        }
        Box::new(Nothing)
    }
}
