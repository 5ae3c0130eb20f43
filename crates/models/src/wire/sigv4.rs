//! Amazon's signature of a request, version 4. Pure: the time is given.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, Tag, sign as hmac};
use tidegate_net::Headers;
use tidegate_secrets::Secret;

/// Who signs, for what, and when.
pub(crate) struct Signer<'a> {
    pub(crate) access_key: &'a str,
    pub(crate) secret_key: &'a Secret,
    pub(crate) session_token: Option<&'a Secret>,
    pub(crate) region: &'a str,
    pub(crate) service: &'a str,
    /// Milliseconds since the epoch.
    pub(crate) now_ms: i64,
}

impl Signer<'_> {
    /// Adds the signature to the headers; every header that is there by then is signed. `host` and `path` are as on the
    /// wire, the path with its escapes.
    pub(crate) fn sign(&self, method: &str, host: &str, path: &str, headers: &mut Headers, body: &[u8]) {
        let time = timestamp(self.now_ms);
        headers.set("x-amz-date", &time);
        if let Some(token) = self.session_token {
            headers.set_secret("x-amz-security-token", token);
        }
        let mut lines: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (name, value.expose().trim()))
            .chain([("host", host)])
            .collect();
        lines.sort_unstable();
        let names = lines.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let request = Secret::new(canonical(method, path, &lines, &names, body));
        let date = &time[..8];
        let scope = format!("{date}/{}/{}/aws4_request", self.region, self.service);
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", sha256(request.expose().as_bytes()));
        let signature = hex(hmac(&self.key(date), text.as_bytes()).as_ref());
        let credential = format!("{}/{scope}", self.access_key);
        let value =
            format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}");
        headers.set("authorization", value);
    }

    /// The key of a day, a region and a service.
    fn key(&self, date: &str) -> Key {
        let secret = Secret::new(format!("AWS4{}", self.secret_key.expose()));
        let first = Key::new(HMAC_SHA256, secret.expose().as_bytes());
        [date, self.region, self.service, "aws4_request"].iter().fold(first, |key, part| {
            let tag: Tag = hmac(&key, part.as_bytes());
            Key::new(HMAC_SHA256, tag.as_ref())
        })
    }
}

/// The request in the one form both sides sign. There is never a query here.
fn canonical(method: &str, path: &str, headers: &[(&str, &str)], names: &str, body: &[u8]) -> String {
    // Escapes on the wire are escaped once more, as for every service but the oldest.
    let path = path.split('/').map(escape).collect::<Vec<_>>().join("/");
    let mut text = format!("{method}\n{path}\n\n");
    for (name, value) in headers {
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{name}:{value}");
    }
    let _ = write!(text, "\n{names}\n{}", sha256(body));
    text
}

/// A part of a path with everything escaped that is not plain.
pub(crate) fn escape(part: &str) -> String {
    part.bytes().fold(String::with_capacity(part.len()), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A time as `20150830T123600Z`.
fn timestamp(now_ms: i64) -> String {
    let seconds = now_ms.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// The date so many days after the epoch. Years are counted from March, so that a leap day is a year's last.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * day + 2) / 153;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, day - (153 * from_march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sunday, 30 August 2015, 12:36, as in Amazon's published examples.
    const THEN: i64 = 1_440_938_160_000;

    fn example(service: &'static str, secret: &Secret, token: Option<&Secret>, run: impl Fn(&Signer<'_>)) {
        run(&Signer {
            access_key: "AKIDEXAMPLE",
            secret_key: secret,
            session_token: token,
            region: "us-east-1",
            service,
            now_ms: THEN,
        });
    }

    fn secret() -> Secret {
        Secret::new(concat!("wJalrXUtnFEMI/K7MDENG", "+bPxRfiCYEXAMPLEKEY"))
    }

    /// The signature and the names it covers.
    fn signature(headers: &Headers) -> (String, String) {
        let text = headers.get("authorization").unwrap().expose().to_owned();
        let after = |name: &str| text.split(name).nth(1).unwrap().split(',').next().unwrap().to_owned();
        (after("SignedHeaders="), after("Signature="))
    }

    #[test]
    fn the_published_examples_get_the_published_signatures() {
        let (plain, form) = ("host;x-amz-date", "content-type;host;x-amz-date");
        let cases = [
            ("GET", false, "", plain, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            ("POST", false, "", plain, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
            (
                "POST",
                true,
                "Param1=value1",
                form,
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
            ),
        ];
        for (method, given, body, names, expected) in cases {
            example("service", &secret(), None, |signer| {
                let mut headers = Headers::default();
                if given {
                    headers.set("content-type", "application/x-www-form-urlencoded");
                }
                signer.sign(method, "example.amazonaws.com", "/", &mut headers, body.as_bytes());
                assert_eq!(signature(&headers), (names.to_owned(), expected.to_owned()));
                assert_eq!(headers.get("x-amz-date").unwrap().expose(), "20150830T123600Z");
            });
        }
    }

    #[test]
    fn the_key_of_the_published_example_is_the_published_one() {
        // The published key signs the published text: a key itself cannot be looked at.
        example("iam", &secret(), None, |signer| {
            let text = "AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/iam/aws4_request\n\
                        f536975d06c0309214f805bb90ccff089219ecd68b2577efef23edd43b7e1a59";
            let signature = hex(hmac(&signer.key("20150830"), text.as_bytes()).as_ref());
            assert_eq!(signature, "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");
        });
    }

    #[test]
    fn a_session_token_is_sent_and_signed() {
        example("service", &secret(), Some(&Secret::new("temporary")), |signer| {
            let mut headers = Headers::default();
            signer.sign("POST", "example.amazonaws.com", "/", &mut headers, b"");
            assert_eq!(headers.get("x-amz-security-token").unwrap().expose(), "temporary");
            assert_eq!(signature(&headers).0, "host;x-amz-date;x-amz-security-token");
        });
    }

    #[test]
    fn a_path_is_signed_with_its_escapes_escaped() {
        let text = canonical("POST", "/model/a.b-v1%3A0/converse-stream", &[("host", "h")], "host", b"");
        assert!(text.starts_with("POST\n/model/a.b-v1%253A0/converse-stream\n\nhost:h\n\nhost\n"), "{text}");
    }

    #[test]
    fn times_are_written_in_amazons_way() {
        let cases = [
            (0, "19700101T000000Z"),
            (THEN, "20150830T123600Z"),
            (951_782_400_999, "20000229T000000Z"),
            (1_709_251_199_000, "20240229T235959Z"),
            (4_107_542_400_000, "21000301T000000Z"),
            (-1, "19691231T235959Z"),
        ];
        for (now_ms, text) in cases {
            assert_eq!(timestamp(now_ms), text);
        }
    }
}
