//! The tool `image`: has a model that reads images answer a question about one.
//!
//! It is here and not among the other tools because it calls a model, which only an engine does.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_net::Client;
use tidegate_policy::{Permitted, Preparation};
use tidegate_protocol::{Risk, RunSpec, Scope};
use tidegate_tools::{Output, Place, Tool, ToolFailure, ToolSpec, Work, fence};

use super::image_look::{LIMIT, Look};
use super::image_source::{Written, load, touched};
use crate::settings::{ImageModelError, Settings};
use crate::start::Core;

const NAME: &str = "image";
const PROMPT: &str = "Describe this image.";
/// Tokens of an answer.
const MOST_TOKENS: u32 = 512;
const MEGABYTE: f64 = 1_048_576.0;
const USUAL_MEGABYTES: f64 = 5.0;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Args {
    /// A file in the working folder, a file:// path, a data: URL in base64, or an http(s) address.
    image: String,
    /// What to find out about it; a description without it.
    #[serde(default)]
    prompt: Option<String>,
    /// The model to ask, as provider/model.
    #[serde(default)]
    model: Option<String>,
    /// Megabytes the image may have; 5 without it.
    #[serde(default)]
    #[schemars(range(min = 0.01, max = 20.0))]
    max_bytes_mb: Option<f64>,
}

impl Args {
    fn read(args: &Value) -> Result<Self, ToolFailure> {
        Self::deserialize(args).map_err(|error| ToolFailure::arguments(error.to_string()))
    }

    /// Bytes the image may have. The schema keeps the number small and positive.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0.01 and 20 megabytes"
    )]
    fn cap(&self) -> u64 {
        (self.max_bytes_mb.unwrap_or(USUAL_MEGABYTES).clamp(0.01, 20.0) * MEGABYTE) as u64
    }
}

pub(super) struct ImageTool {
    spec: ToolSpec,
    settings: Arc<Settings>,
    client: Client,
    /// The engine that asks the model; none where tools are only looked at.
    core: Weak<Core>,
}

impl ImageTool {
    pub(super) fn new(settings: Arc<Settings>, core: Weak<Core>) -> Self {
        let description = "Has a model that reads images answer a question about one (png, jpeg, gif, webp): a file, \
                           a data: URL or a web address.";
        let spec = ToolSpec {
            risk: Risk::Network,
            // The image has to come before somebody can look at it, and each keeps its own time.
            timeout: Some(LIMIT + Duration::from_secs(45)),
            ..ToolSpec::of::<Args>(NAME, description)
        };
        let client = Client::default().guarded_by(settings.guard());
        Self { spec, settings, client, core }
    }

    fn model_call(&self, scope: &Scope, args: &Args) -> Result<RunSpec, ToolFailure> {
        self.settings.image_spec(scope, args.model.as_deref(), MOST_TOKENS).map_err(|error| match error {
            ImageModelError::Blind(_) => ToolFailure::arguments(error.to_string()),
            other => ToolFailure::execution(other.to_string()),
        })
    }
}

#[async_trait]
impl Tool for ImageTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn prepare(&self, args: &Value, place: &Place) -> Result<Preparation, ToolFailure> {
        let args = Args::read(args)?;
        let (subjects, risk) =
            touched(&Written::read(&args.image)?, place, &self.client.within(&place.egress)).await?;
        // Whoever approves also approves who gets to see it.
        let models = self.model_call(&place.requester.scope, &args)?.models;
        let models: Vec<_> = models.iter().map(ToString::to_string).collect();
        Ok(Preparation {
            subjects,
            risk: Some(risk),
            conditions: vec![("models".to_owned(), models.join(" "))],
            ..Preparation::default()
        })
    }

    async fn run(&self, permitted: &Permitted, work: &Work<'_>) -> Result<Output, ToolFailure> {
        let Some(core) = self.core.upgrade() else {
            return Err(ToolFailure::execution("no engine is here to ask a model"));
        };
        let prepared = permitted.prepared();
        let args = Args::read(prepared.args())?;
        let client = self.client.within(&work.place.egress);
        let picture = load(&Written::read(&args.image)?, prepared, work.place, &client, args.cap()).await?;
        let (name, mime_type, bytes) = (picture.name.clone(), picture.mime_type, picture.bytes.len());
        let requester = prepared.requester();
        let look = Look {
            scope: requester.scope.clone(),
            session: requester.session.parse().ok(),
            run: work.run,
            spec: self.model_call(&requester.scope, &args)?,
            prompt: args
                .prompt
                .filter(|prompt| !prompt.trim().is_empty())
                .unwrap_or_else(|| PROMPT.to_owned()),
            picture,
        };
        let given_up = work.cancel.child_token();
        // Whoever stops waiting ends the call; what it used is written down all the same.
        let _stopped = given_up.clone().drop_guard();
        let looking = Arc::clone(&core);
        let seen = core.unbroken(NAME, async move { looking.look(look, given_up).await }).await;
        let seen = seen.map_err(|error| ToolFailure::execution(error.to_string()))??;
        let mut text = fence(&format!("{} about the image {name}", seen.model), &seen.text);
        if seen.cut {
            text.push_str("\n(The answer was longer; only its beginning came.)");
        }
        let data = json!({ "model": seen.model, "image": name, "bytes": bytes, "mimeType": mime_type });
        Ok(Output { truncated: seen.cut, ..Output::text(text).with_data(data) })
    }
}
