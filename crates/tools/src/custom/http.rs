//! The address, headers and body of a configured HTTP call, filled from arguments. Pure.
//!
//! Scheme, host and port are the operator's: no argument can send a call elsewhere.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_net::{Headers, Method, Secret};

use super::template::{FillError, JsonTemplate, Template, TemplateError};

/// An HTTP call as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpSpec {
    pub method: String,
    pub url: String,
    /// Values may be keys, and may have arguments in them.
    pub headers: BTreeMap<String, Secret>,
    /// Sent as JSON; a text is sent as it is.
    pub body: Option<Value>,
}

/// An HTTP call that can be filled. It holds the operator's keys, so it cannot be printed.
pub(super) struct HttpTemplate {
    method: Method,
    /// Scheme, host and port.
    origin: String,
    path: Vec<Template>,
    query: Vec<Template>,
    headers: Vec<(String, Template)>,
    body: Option<JsonTemplate>,
}

/// An HTTP call with everything filled in.
#[derive(Debug, Clone)]
pub(super) struct HttpCall {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: Headers,
    pub(super) body: Option<String>,
}

/// Why an HTTP call cannot be made from a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpSpecError {
    #[error("the address has to begin with http:// or https:// and a host")]
    Address,
    #[error("scheme, host and port cannot come from arguments")]
    Origin,
    #[error("an address with `#` or a user name in it")]
    Odd,
    #[error("{0:?} is no method")]
    Method(String),
    #[error("GET and HEAD have no body")]
    Body,
    #[error("{0:?} cannot be set as a header")]
    Header(String),
    #[error(transparent)]
    Template(#[from] TemplateError),
}

impl HttpTemplate {
    pub(super) fn read(spec: &HttpSpec, schema: &Value) -> Result<Self, HttpSpecError> {
        let method = Method::parse(&spec.method).ok_or_else(|| HttpSpecError::Method(spec.method.clone()))?;
        if method.only_reads() && spec.body.is_some() {
            return Err(HttpSpecError::Body);
        }
        if let Some(name) = spec.headers.keys().find(|name| !is_header(name)) {
            return Err(HttpSpecError::Header(name.clone()));
        }
        let (origin, path, query) = parts(&spec.url)?;
        let read = |text: &str| Template::read(text, schema);
        let headers = spec.headers.iter().map(|(name, value)| Ok((name.clone(), read(value.expose())?)));
        Ok(Self {
            method,
            origin: origin.to_owned(),
            path: path.split('/').map(read).collect::<Result<_, _>>()?,
            query: query.map_or(Ok(Vec::new()), |query| query.split('&').map(read).collect())?,
            headers: headers.collect::<Result<_, TemplateError>>()?,
            body: spec.body.as_ref().map(|body| JsonTemplate::read(body, schema)).transpose()?,
        })
    }

    /// A parameter or header whose value is missing is left out; a path needs all its values.
    pub(super) fn fill(&self, args: &Value) -> Result<HttpCall, FillError> {
        let mut url = self.origin.clone();
        for segment in &self.path {
            let filled = segment.part(args)?;
            if segment.has_places() && (filled.is_empty() || filled == "." || filled == "..") {
                return Err(FillError::Dots(segment.label()));
            }
            url.push('/');
            url.push_str(&filled);
        }
        let mut sign = '?';
        for parameter in &self.query {
            let filled = match parameter.part(args) {
                Ok(filled) => filled,
                Err(FillError::Missing(_)) => continue,
                Err(other) => return Err(other),
            };
            url.push(sign);
            url.push_str(&filled);
            sign = '&';
        }
        let mut headers = Headers::default();
        let body = self.body.as_ref().and_then(|body| body.fill(args)).map(|body| match body {
            Value::String(text) => text,
            other => {
                headers.set("content-type", "application/json");
                other.to_string()
            }
        });
        for (name, template) in &self.headers {
            if let Some(value) = template.header(args)? {
                headers.set(name, value);
            }
        }
        Ok(HttpCall { method: self.method, url, headers, body })
    }
}

/// Whether an operator may set it: not what belongs to the connection.
fn is_header(name: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let connection =
        ["host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer"];
    !name.is_empty() && name.chars().all(token) && !connection.contains(&name.to_ascii_lowercase().as_str())
}

/// Origin, path without its first slash, and query.
fn parts(url: &str) -> Result<(&str, &str, Option<&str>), HttpSpecError> {
    let host_at =
        ["https://", "http://"].iter().find(|scheme| url.starts_with(**scheme)).map(|scheme| scheme.len());
    let Some(host_at) = host_at else {
        return Err(if url.starts_with("{{") { HttpSpecError::Origin } else { HttpSpecError::Address });
    };
    let end = url[host_at..].find(['/', '?', '#']).map_or(url.len(), |at| host_at + at);
    let host = &url[host_at..end];
    if host.contains(['{', '}']) {
        return Err(HttpSpecError::Origin);
    }
    if host.is_empty() {
        return Err(HttpSpecError::Address);
    }
    if host.contains(['@', '\\']) || url.contains('#') {
        return Err(HttpSpecError::Odd);
    }
    let rest = &url[end..];
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    Ok((&url[..end], path.strip_prefix('/').unwrap_or(path), query))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({ "type": "object", "properties": { "city": {}, "unit": {}, "token": {} } })
    }

    fn template(url: &str) -> Result<HttpTemplate, HttpSpecError> {
        let headers = [("X-Token".to_owned(), Secret::new("t {{token}}"))].into();
        HttpTemplate::read(
            &HttpSpec { method: "get".into(), url: url.into(), headers, body: None },
            &schema(),
        )
    }

    #[test]
    fn a_call_is_filled_part_by_part() {
        let template =
            template("https://api.example/v1/{{city}}/now?q={{city}}&unit={{unit}}&k=1").ok().unwrap();
        let call = template.fill(&json!({ "city": "a b/c?d&e#f%" })).unwrap();
        assert_eq!(
            call.url,
            "https://api.example/v1/a%20b%2Fc%3Fd%26e%23f%25/now?q=a%20b%2Fc%3Fd%26e%23f%25&k=1"
        );
        assert_eq!((call.method, call.headers.iter().count(), call.body), (Method::Get, 0, None));
        let call = template.fill(&json!({ "city": "x", "unit": "C", "token": "s" })).unwrap();
        assert_eq!(call.url, "https://api.example/v1/x/now?q=x&unit=C&k=1");
        assert_eq!(call.headers.get("x-token").unwrap().expose(), "t s");
    }

    #[test]
    fn a_path_cannot_be_left_or_lack_a_part() {
        let template = template("https://api.example/v1/{{city}}").ok().unwrap();
        for wrong in [json!({ "city": ".." }), json!({ "city": "." }), json!({ "city": "" }), json!({})] {
            assert!(template.fill(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn where_a_call_goes_is_the_operators() {
        for (url, expected) in [
            ("https://{{city}}/x", HttpSpecError::Origin),
            ("https://api.{{city}}.example", HttpSpecError::Origin),
            ("https://api.example:{{city}}/", HttpSpecError::Origin),
            ("{{city}}://api.example/", HttpSpecError::Origin),
            ("{{city}}", HttpSpecError::Origin),
            ("ftp://x/", HttpSpecError::Address),
            ("https:///x", HttpSpecError::Address),
            ("api.example", HttpSpecError::Address),
            ("https://user@api.example/", HttpSpecError::Odd),
            ("https://api.example/#{{city}}", HttpSpecError::Odd),
        ] {
            assert_eq!(template(url).err(), Some(expected), "{url}");
        }
        assert_eq!(template("http://h:1?q={{city}}").ok().unwrap().origin, "http://h:1");
    }

    #[test]
    fn what_cannot_be_sent_is_told_when_it_is_configured() {
        let spec = HttpSpec {
            method: "POST".into(),
            url: "https://api.example/".into(),
            headers: BTreeMap::new(),
            body: Some(json!({ "city": "{{city}}" })),
        };
        let read = |spec: HttpSpec| HttpTemplate::read(&spec, &schema()).err();
        assert_eq!(read(spec.clone()), None);
        let method = |method: &str| HttpSpec { method: method.into(), ..spec.clone() };
        assert_eq!(read(method("GET")), Some(HttpSpecError::Body));
        assert_eq!(read(method("BREW")), Some(HttpSpecError::Method("BREW".into())));
        for name in ["Host", "content-length", "a b", ""] {
            let headers = [(name.to_owned(), Secret::new("x"))].into();
            let spec = HttpSpec { headers, ..spec.clone() };
            assert_eq!(read(spec), Some(HttpSpecError::Header(name.into())), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_argument_changes_the_shape_of_an_address(city in ".{1,30}", unit in ".{0,30}") {
            let template = template("https://api.example/v1/{{city}}/x?unit={{unit}}").ok().unwrap();
            if let Ok(call) = template.fill(&json!({ "city": city, "unit": unit })) {
                let rest = call.url.strip_prefix("https://api.example/v1/").unwrap();
                prop_assert_eq!(rest.matches('/').count(), 1);
                prop_assert_eq!(rest.matches('?').count(), 1);
                prop_assert!(!rest.contains(['&', '#', '\\', ' ']));
            }
        }
    }
}
