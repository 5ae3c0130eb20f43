//! A page as a picture or as a file.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tidegate_policy::{Prepared, Subject, SubjectKind};
use tidegate_protocol::Block;

use super::attend::Browser;
use super::launch::WIDTH;
use super::page::Which;
use super::snapshot::Meant;
use crate::place::Place;
use crate::root::{PathError, Root};
use crate::tool::ToolFailure;

/// Bytes of a picture; a larger one is taken again in a form that is smaller.
const PICTURE: usize = 4 << 20;
const TALLEST: f64 = 6_000.0;
const PDF: usize = 32 << 20;
/// The largest file that a page may take the place of.
const REPLACED: u64 = PDF as u64;
pub(super) const USUAL_PATH: &str = "page.pdf";

/// What is taken.
pub(super) enum Part<'a> {
    View,
    Whole,
    Thing(&'a Meant),
}

impl Browser {
    pub(super) async fn screenshot(
        &self,
        which: &Which,
        part: Part<'_>,
    ) -> Result<(Block, usize), ToolFailure> {
        let session = Some(which.session.as_str());
        let mut ask = json!({ "format": "png" });
        match part {
            Part::View => {}
            Part::Whole => {
                let size = self.wire.call(session, "Page.getLayoutMetrics", json!({})).await?;
                let size = &size["cssContentSize"];
                let width = size["width"].as_f64().unwrap_or_default().clamp(1.0, f64::from(WIDTH) * 2.0);
                let height = size["height"].as_f64().unwrap_or_default().clamp(1.0, TALLEST);
                ask["clip"] = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
                ask["captureBeyondViewport"] = true.into();
            }
            Part::Thing(meant) => {
                if meant.session != which.session {
                    return Err(ToolFailure::execution(
                        "a thing inside another site's frame cannot be taken alone",
                    ));
                }
                let node = json!({ "backendNodeId": meant.node });
                let _ = self.wire.call(session, "DOM.scrollIntoViewIfNeeded", node.clone()).await;
                let at = self.wire.call(session, "DOM.getBoxModel", node).await;
                let at = at.map_err(|_| ToolFailure::execution("it is not visible"))?;
                let (x, y) = (at["model"]["border"][0].as_f64(), at["model"]["border"][1].as_f64());
                let scrolled = self.beside(which, "({ x: scrollX, y: scrollY })").await?;
                let from = |edge: Option<f64>, name: &str| {
                    edge.unwrap_or_default() + scrolled[name].as_f64().unwrap_or_default()
                };
                let size = |name: &str| at["model"][name].as_f64().unwrap_or_default().clamp(1.0, TALLEST);
                ask["clip"] = json!({ "x": from(x, "x"), "y": from(y, "y"), "width": size("width"), "height": size("height"), "scale": 1 });
            }
        }
        for (form, mime_type) in [("png", "image/png"), ("jpeg", "image/jpeg")] {
            ask["format"] = form.into();
            if form == "jpeg" {
                ask["quality"] = 60.into();
            }
            let mut taken = self.wire.call(session, "Page.captureScreenshot", ask.clone()).await?;
            let serde_json::Value::String(data) = taken["data"].take() else { continue };
            let bytes = data.len() / 4 * 3;
            if bytes <= PICTURE {
                return Ok((Block::Image { data, mime_type: mime_type.to_owned() }, bytes));
            }
        }
        Err(ToolFailure::execution("the picture is too large: take a part of the page"))
    }

    pub(super) async fn pdf(&self, which: &Which) -> Result<Vec<u8>, ToolFailure> {
        let ask = json!({ "printBackground": true });
        let printed = self.wire.call(Some(&which.session), "Page.printToPDF", ask).await?;
        let bytes = printed["data"].as_str().and_then(|data| STANDARD.decode(data).ok());
        let bytes = bytes.ok_or_else(|| ToolFailure::execution("the page could not be printed"))?;
        if bytes.len() > PDF {
            return Err(ToolFailure::execution("the file would be too large"));
        }
        Ok(bytes)
    }
}

/// Where a file would go, and what is there now.
pub(super) async fn destination(
    place: &Place,
    path: &str,
) -> Result<(Subject, (String, String)), ToolFailure> {
    let (root, forbidden, path) = (place.root.clone(), place.forbidden.clone(), path.to_owned());
    blocking(move || {
        let root = Root::open(&root, &forbidden)?;
        let found = root.find(&path)?;
        let (name, was) = (found.name()?, found.was(REPLACED)?);
        Ok((Subject::new(SubjectKind::Path, name.clone()), (format!("sha256 {name}"), was.digest())))
    })
    .await
}

/// Writes it where it was permitted, if what is there is still what was there.
pub(super) async fn put(prepared: &Prepared, place: &Place, bytes: Vec<u8>) -> Result<String, ToolFailure> {
    if place.root.as_os_str() != prepared.requester().root.as_str() {
        return Err(ToolFailure::execution("the call was permitted for another folder"));
    }
    let path = prepared.subjects().iter().find(|subject| subject.kind == SubjectKind::Path);
    let name = path.map(|path| path.value.clone());
    let name = name.ok_or_else(|| ToolFailure::execution("the call names no file"))?;
    let conditions = prepared.conditions().to_vec();
    let (root, forbidden): (PathBuf, Vec<PathBuf>) = (place.root.clone(), place.forbidden.clone());
    blocking(move || {
        let root = Root::open(&root, &forbidden)?;
        let mut found = root.exactly(&name)?;
        let was = found.was(REPLACED)?;
        if !conditions.contains(&(format!("sha256 {name}"), was.digest())) {
            return Err(PathError::Changed(name).into());
        }
        found.make_folders()?;
        found.stage(&bytes, &was, was.mode())?.put()?;
        Ok(name)
    })
    .await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolFailure> + Send + 'static,
) -> Result<T, ToolFailure> {
    let done = tidegate_runtime::spawn_blocking("browser file", work).join().await;
    done.unwrap_or_else(|end| Err(ToolFailure::execution(end.to_string())))
}
