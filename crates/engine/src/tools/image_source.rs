//! Where an image comes from: a file of the workspace, the call itself, or the web.
//!
//! What a model wrote is read once, when the call is prepared; what is opened is what was prepared.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use tidegate_net::{Address, Call, Client, Fetch, Fetched, Headers, Hosts, Method, Origin, Timeouts};
use tidegate_policy::{Prepared, Subject, SubjectKind};
use tidegate_protocol::Risk;
use tidegate_tools::{Place, Root, ToolFailure, chosen_address, image_type, network_failure};

/// Data addresses come with and without their padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
const FETCH_TIME: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(15);
const REDIRECTS: usize = 3;

/// An image as a model takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) bytes: Vec<u8>,
    pub(super) mime_type: &'static str,
    /// Where it came from, for people and models to read.
    pub(super) name: String,
}

/// What somebody wrote as an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Written<'a> {
    Path(std::borrow::Cow<'a, str>),
    /// What follows `data:`.
    Data(&'a str),
    Web(&'a str),
}

impl<'a> Written<'a> {
    /// Reads the text. A leading `@` is how people mention files.
    pub(super) fn read(text: &'a str) -> Result<Self, ToolFailure> {
        let text = text.trim();
        let text = text.strip_prefix('@').unwrap_or(text);
        if let Some(data) = after(text, "data:") {
            return Ok(Self::Data(data));
        }
        if after(text, "http://").or(after(text, "https://")).is_some() {
            return Ok(Self::Web(text));
        }
        match after(text, "file://") {
            Some(rest) => file_path(rest).map(|path| Self::Path(path.into())),
            None => Ok(Self::Path(text.into())),
        }
    }
}

/// What comes after a beginning, in whichever case it is written.
fn after<'a>(text: &'a str, beginning: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(beginning.len())?;
    head.eq_ignore_ascii_case(beginning).then_some(rest)
}

/// The path of a `file://` address: of this machine, decoded.
fn file_path(rest: &str) -> Result<String, ToolFailure> {
    let odd = || ToolFailure::arguments("the file:// address cannot be read; give a path instead");
    let rest = after(rest, "localhost/").map_or(rest, |_| &rest["localhost".len()..]);
    if !rest.starts_with('/') {
        return Err(odd());
    }
    let mut bytes = Vec::with_capacity(rest.len());
    let mut left = rest.as_bytes();
    while let Some((&byte, tail)) = left.split_first() {
        left = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, tail) = left.split_at_checked(2).ok_or_else(odd)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let (high, low) = (digit(digits[0]).ok_or_else(odd)?, digit(digits[1]).ok_or_else(odd)?);
        bytes.push(high << 4 | low);
        left = tail;
    }
    String::from_utf8(bytes).map_err(|_| odd())
}

/// What a call would touch, and how dangerous that is.
pub(super) async fn touched(
    written: &Written<'_>,
    place: &Place,
    client: &Client,
) -> Result<(Vec<Subject>, Risk), ToolFailure> {
    match written {
        Written::Path(path) => {
            let path = path.clone().into_owned();
            let (root, forbidden) = (place.root.clone(), place.forbidden.clone());
            let name = blocking(move || Ok(Root::open(&root, &forbidden)?.normalise(&path)?)).await?;
            Ok((vec![Subject::new(SubjectKind::Path, name)], Risk::Read))
        }
        Written::Data(_) => Ok((Vec::new(), Risk::Read)),
        Written::Web(url) => {
            let address = chosen_address(client, url)?;
            let host = Subject::new(SubjectKind::Host, address.host());
            Ok((vec![host, Subject::new(SubjectKind::Url, address.as_str())], Risk::Network))
        }
    }
}

/// Gets the image of a permitted call.
pub(super) async fn load(
    written: &Written<'_>,
    prepared: &Prepared,
    place: &Place,
    client: &Client,
    cap: u64,
) -> Result<Picture, ToolFailure> {
    let subject = |kind| prepared.subjects().iter().find(|subject| subject.kind == kind);
    let other = || ToolFailure::execution("the call was permitted for another image");
    let (name, bytes) = match written {
        Written::Path(_) => {
            let name = subject(SubjectKind::Path).ok_or_else(other)?.value.clone();
            if place.root.as_os_str() != prepared.requester().root.as_str() {
                return Err(other());
            }
            (name.clone(), read_file(name, place.root.clone(), place.forbidden.clone(), cap).await?)
        }
        Written::Data(data) => ("a data: address".to_owned(), decode(data, cap)?),
        Written::Web(_) => {
            let url = &subject(SubjectKind::Url).ok_or_else(other)?.value;
            fetch(client, url, cap).await?
        }
    };
    match image_type(&bytes) {
        Some(mime_type) => Ok(Picture { bytes, mime_type, name }),
        None => Err(ToolFailure::execution(format!(
            "{name} is no image that is read here (png, jpeg, gif, webp)"
        ))),
    }
}

async fn read_file(
    name: String,
    root: PathBuf,
    forbidden: Vec<PathBuf>,
    cap: u64,
) -> Result<Vec<u8>, ToolFailure> {
    blocking(move || Ok(Root::open(&root, &forbidden)?.read(&name, cap)?)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolFailure> + Send + 'static,
) -> Result<T, ToolFailure> {
    let done = tidegate_runtime::spawn_blocking("image", work).join().await;
    done.unwrap_or_else(|end| Err(ToolFailure::execution(end.to_string())))
}

/// The bytes of a `data:` address. What it says about its kind is not believed.
pub(super) fn decode(data: &str, cap: u64) -> Result<Vec<u8>, ToolFailure> {
    let (kind, payload) =
        data.split_once(',').ok_or_else(|| ToolFailure::arguments("the data: address has no comma"))?;
    if after(kind.rsplit(';').next().unwrap_or_default(), "base64") != Some("") {
        return Err(ToolFailure::arguments("the data: address is not in base64"));
    }
    let payload: Vec<u8> = payload.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let size = payload.len() as u64 / 4 * 3;
    if size > cap + 2 {
        return Err(too_large("a data: address", cap));
    }
    let bytes = BASE64
        .decode(payload)
        .map_err(|error| ToolFailure::arguments(format!("the data: address is broken: {error}")))?;
    if bytes.len() as u64 > cap {
        return Err(too_large("a data: address", cap));
    }
    Ok(bytes)
}

pub(super) async fn fetch(client: &Client, url: &str, cap: u64) -> Result<(String, Vec<u8>), ToolFailure> {
    let mut headers = Headers::default();
    headers.set("accept", "image/png, image/jpeg, image/gif, image/webp");
    let call = Call {
        origin: Origin::Chosen,
        method: Method::Get,
        url: url.to_owned(),
        headers,
        body: Vec::new(),
        timeouts: Timeouts { idle: IDLE },
    };
    let limit = usize::try_from(cap).unwrap_or(usize::MAX);
    let fetch = Fetch { call, redirects: REDIRECTS, hosts: Hosts::Same, deadline: FETCH_TIME, limit };
    let fetched = client.fetch(fetch).await.map_err(|error| network_failure(&error))?;
    // The query may hold what is nobody's business.
    let shown =
        Address::read(&fetched.url).map_or_else(|_| "the address".to_owned(), |address| address.shown());
    // Rules about hosts were asked about the first one.
    if let Some(there) = elsewhere(&fetched) {
        let message = format!("{shown} redirects to another host: {there}; use that address if it is meant");
        return Err(ToolFailure::execution(message));
    }
    if !(200..300).contains(&fetched.status) {
        return Err(ToolFailure::execution(format!("{shown} answered {}", fetched.status)));
    }
    if fetched.cut {
        return Err(too_large(&shown, cap));
    }
    Ok((shown, fetched.body))
}

/// Where a redirect that was not followed leads.
fn elsewhere(fetched: &Fetched) -> Option<String> {
    let location = fetched.header("location").filter(|_| (300..400).contains(&fetched.status))?;
    Some(Address::read(&fetched.url).ok()?.join(location).ok()?.shown())
}

fn too_large(name: &str, cap: u64) -> ToolFailure {
    ToolFailure::execution(format!("{name} is too large (> {cap} bytes); maxBytesMb allows more, up to 20"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_an_image_is_told_apart() {
        for (text, expected) in [
            ("a/b.png", Written::Path("a/b.png".into())),
            (" @a b.png ", Written::Path("a b.png".into())),
            ("@@a.png", Written::Path("@a.png".into())),
            ("FILE:///srv/a%20b.png", Written::Path("/srv/a b.png".into())),
            ("file://localhost/a.png", Written::Path("/a.png".into())),
            ("Data:image/png;base64,AA==", Written::Data("image/png;base64,AA==")),
            ("HTTPS://example.com/a", Written::Web("HTTPS://example.com/a")),
            ("ftp://example.com/a", Written::Path("ftp://example.com/a".into())),
            ("é", Written::Path("é".into())),
        ] {
            assert_eq!(Written::read(text), Ok(expected), "{text}");
        }
        for text in ["file://host/a.png", "file://a.png", "file:///%zz", "file:///%4", "file:///%ff"] {
            assert!(Written::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_data_address_is_decoded_if_it_is_whole_and_small_enough() {
        assert_eq!(decode("image/png;base64,AAEC", 3), Ok(vec![0, 1, 2]));
        assert_eq!(decode(";BASE64,AA\nE", 3), Ok(vec![0, 1]));
        for (data, cap, part) in [
            ("image/png;base64", 9, "comma"),
            ("image/svg+xml,<svg/>", 9, "base64"),
            ("image/png;base64,A*", 9, "broken"),
            ("image/png;base64,AAECAw==", 3, "too large"),
            (&format!("image/png;base64,{}", "A".repeat(400)), 3, "too large"),
        ] {
            let failure = decode(data, cap).unwrap_err();
            assert!(failure.message.contains(part), "{}", failure.message);
        }
    }
}
