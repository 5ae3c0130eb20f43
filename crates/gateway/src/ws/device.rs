//! The identity of a device: an Ed25519 key, and the text it signs to prove that it is the one who connects now. Pure.

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

/// What a device signs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signed<'a> {
    pub(crate) device: &'a str,
    pub(crate) client: &'a str,
    pub(crate) mode: &'a str,
    pub(crate) role: &'a str,
    /// As they were asked for, not as they were granted.
    pub(crate) scopes: &'a [String],
    pub(crate) at: i64,
    pub(crate) token: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) platform: &'a str,
    pub(crate) family: &'a str,
}

/// Which form of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    V1,
    /// With the nonce.
    V2,
    /// With the nonce, the platform and the family.
    V3,
}

impl Signed<'_> {
    /// The text in one of its forms.
    pub(crate) fn text(&self, form: Form) -> String {
        let Self { device, client, mode, role, at, token, nonce, platform, family, .. } = self;
        let scopes = self.scopes.join(",");
        let body = format!("{device}|{client}|{mode}|{role}|{scopes}|{at}|{token}");
        match form {
            Form::V1 => format!("v1|{body}"),
            Form::V2 => format!("v2|{body}|{nonce}"),
            Form::V3 => format!("v3|{body}|{nonce}|{}|{}", plain(platform), plain(family)),
        }
    }

    /// Whether the signature is over any form that the caller may use. Without a nonce there is only the first one.
    pub(crate) fn is_signed(&self, key: &PublicKey, signature: &str) -> bool {
        let forms: &[Form] = if self.nonce.is_empty() { &[Form::V1] } else { &[Form::V3, Form::V2] };
        let Some(signature) = decoded(signature) else { return false };
        forms.iter().any(|form| key.verifies(self.text(*form).as_bytes(), &signature))
    }
}

/// The key of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicKey([u8; 32]);

/// What stands before the raw key in its DER form.
const DER_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

impl PublicKey {
    /// Reads base64url of the raw key, or PEM.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let raw = match text.strip_prefix("-----BEGIN PUBLIC KEY-----") {
            Some(rest) => {
                let body = rest.split("-----END").next()?;
                let body: String = body.split_whitespace().collect();
                BASE64_STANDARD.decode(body).ok()?.strip_prefix(&DER_PREFIX)?.to_vec()
            }
            None => decoded(text)?,
        };
        raw.try_into().ok().map(Self)
    }

    /// The name of the device that has it.
    pub(crate) fn device(&self) -> String {
        Sha256::digest(self.0).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }

    /// As it is kept.
    pub(crate) fn text(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0)
    }

    fn verifies(&self, text: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(text, signature).is_ok()
    }

    /// The same for a signature in base64url.
    pub(crate) fn verifies_text(&self, text: &str, signature: &str) -> bool {
        decoded(signature).is_some_and(|signature| self.verifies(text.as_bytes(), &signature))
    }
}

/// What a client says about its machine, as it is signed.
fn plain(text: &str) -> String {
    text.trim().to_ascii_lowercase()
}

/// Base64url, with or without padding; the plain alphabet too, since clients mix them.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let plain: String = text
        .trim_end_matches('=')
        .chars()
        .map(|c| match c {
            '+' => '-',
            '/' => '_',
            c => c,
        })
        .collect();
    BASE64_URL_SAFE_NO_PAD.decode(plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg";
    const DEVICE: &str = "56475aa75463474c0285df5dbf2bcab73da651358839e9b77481b2eab107708c";

    #[test]
    fn known_signatures_are_accepted_and_every_change_is_not() {
        let scopes = ["operator.admin".to_owned(), "operator.approvals".to_owned()];
        let signed = Signed {
            device: DEVICE,
            client: "cli",
            mode: "cli",
            role: "operator",
            scopes: &scopes,
            at: 1_737_264_000_000,
            token: "secret",
            nonce: "",
            platform: "linux",
            family: "",
        };
        let key = PublicKey::read(KEY).unwrap();
        assert_eq!(key.device(), DEVICE);
        let first = "UBYB3T6mERXJI1P-DjGjMwoyXFJP-F8K1up0Kss3bWzYtwkc0P6s7GYSnokwGYCCK570vJtaM8PKeaYmxpy5DQ";
        let second = "r55AvzvLkglS9u-taxz-bROiDMsIy88pBZ2W6vBTf3MHhdRYsMZz-R29QUVeDpyqTGrjhlyrzjE_0f4yg-IDBA";
        assert!(signed.is_signed(&key, first));
        let with_nonce = Signed { nonce: "nonce-1", ..signed };
        assert!(with_nonce.is_signed(&key, second));
        // A nonce that was given must be under the signature.
        assert!(!with_nonce.is_signed(&key, first));
        for changed in [
            Signed { client: "webchat", ..signed },
            Signed { role: "node", ..signed },
            Signed { scopes: &scopes[..1], ..signed },
            Signed { at: 1, ..signed },
            Signed { token: "", ..signed },
        ] {
            assert!(!changed.is_signed(&key, first), "{changed:?}");
        }
        assert!(!signed.is_signed(&key, "") && !signed.is_signed(&key, &first[1..]));
    }

    #[test]
    fn a_key_is_read_raw_and_as_pem() {
        let raw = PublicKey::read(KEY).unwrap();
        let der = [&DER_PREFIX[..], &raw.0].concat();
        let pem = format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            BASE64_STANDARD.encode(der)
        );
        assert_eq!(PublicKey::read(&pem), Some(raw.clone()));
        assert_eq!(raw.text(), KEY);
        for broken in ["", "AAAA", "-----BEGIN PUBLIC KEY-----", "not base64!"] {
            assert_eq!(PublicKey::read(broken), None, "{broken}");
        }
    }
}
