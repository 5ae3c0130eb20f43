//! What a refusal says about how to sign in (`WWW-Authenticate`, RFC 6750 and RFC 9728).

/// The parameters of the scheme `Bearer`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) resource_metadata: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) error: Option<String>,
}

impl Challenge {
    pub(crate) fn read(header: &str) -> Self {
        let mut found = Self::default();
        let mut bearer = false;
        let mut rest = header;
        while let Some((word, value, after)) = next(rest) {
            rest = after;
            let Some(value) = value else {
                bearer = word.eq_ignore_ascii_case("bearer");
                continue;
            };
            let place = match word.to_ascii_lowercase().as_str() {
                "resource_metadata" => &mut found.resource_metadata,
                "scope" => &mut found.scope,
                "error" => &mut found.error,
                _ => continue,
            };
            if bearer && place.is_none() && !value.is_empty() {
                *place = Some(value);
            }
        }
        found
    }

    /// Whether a login is there and does not allow what was asked.
    pub(crate) fn wants_more_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// The next word, its value if it has one, and what follows.
fn next(text: &str) -> Option<(&str, Option<String>, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let end = text.find([' ', '\t', ',', '=']).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    if word.is_empty() && after.is_empty() {
        return None;
    }
    let Some(value) = after.trim_start().strip_prefix('=') else { return Some((word, None, after)) };
    let value = value.trim_start();
    if let Some(quoted) = value.strip_prefix('"') {
        let (value, after) = unquoted(quoted);
        return Some((word, Some(value), after));
    }
    let end = value.find([' ', '\t', ',']).unwrap_or(value.len());
    Some((word, Some(value[..end].to_owned()), &value[end..]))
}

/// A text up to its closing quote, and what follows.
fn unquoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, &text[at + 1..]),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_of_bearer_are_read_whatever_stands_around_them() {
        let of = |metadata: Option<&str>, scope: Option<&str>, error: Option<&str>| Challenge {
            resource_metadata: metadata.map(str::to_owned),
            scope: scope.map(str::to_owned),
            error: error.map(str::to_owned),
        };
        for (header, expected) in [
            ("", of(None, None, None)),
            ("Bearer", of(None, None, None)),
            (
                r#"Bearer resource_metadata="https://h/.well-known/x", scope="a b""#,
                of(Some("https://h/.well-known/x"), Some("a b"), None),
            ),
            (
                r#"bearer error=insufficient_scope,scope="x\"y" , realm = "z, w=1""#,
                of(None, Some("x\"y"), Some("insufficient_scope")),
            ),
            (r#"Basic realm="r", scope="no", Bearer scope="yes""#, of(None, Some("yes"), None)),
            (r#"Bearer scope="yes", Basic scope="no""#, of(None, Some("yes"), None)),
            (r#"Bearer scope="never ends"#, of(None, Some("never ends"), None)),
            ("Bearer =, ==", of(None, None, None)),
        ] {
            assert_eq!(Challenge::read(header), expected, "{header}");
        }
    }
}
