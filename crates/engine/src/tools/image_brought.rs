//! Images that come with a question: the bytes themselves, or an address that is fetched like any that was chosen by
//! somebody outside.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tidegate_net::Client;
use tidegate_protocol::{Block, ErrorBody, ErrorCode};
use tidegate_tools::{ToolFailure, image_type};

use super::image_source::{Written, decode, fetch};
use crate::error::EngineError;
use crate::start::Engine;

/// Bytes an image may have.
const LARGEST: u64 = 10 << 20;

impl Engine {
    /// The image behind a `data:` or a web address. Files of this machine are nobody's to name.
    pub async fn picture(&self, address: &str) -> Result<Block, EngineError> {
        let refused = |failure: ToolFailure| {
            EngineError::Refused(ErrorBody::new(
                ErrorCode::BadRequest,
                format!("an image: {}", failure.message),
            ))
        };
        let bytes = match Written::read(address).map_err(refused)? {
            Written::Data(data) => decode(data, LARGEST).map_err(refused)?,
            Written::Web(url) => {
                let client = Client::default().guarded_by(self.settings().guard());
                fetch(&client, url, LARGEST).await.map_err(refused)?.1
            }
            Written::Path(_) => {
                let message = "an image is a data: address in base64, or an http(s) address";
                return Err(refused(ToolFailure::arguments(message)));
            }
        };
        let no_image = || ToolFailure::execution("this is no image that is read here (png, jpeg, gif, webp)");
        let mime_type = image_type(&bytes).ok_or_else(no_image).map_err(refused)?;
        Ok(Block::Image { data: STANDARD.encode(bytes), mime_type: mime_type.to_owned() })
    }
}
