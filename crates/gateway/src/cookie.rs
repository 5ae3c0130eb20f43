//! The page's cookie: `v1.<expiry>.<signature>`. Nothing is stored; a restart changes nothing, a new token ends it.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::Mac as _;

use crate::token::keyed;

/// The cookie's name.
pub const COOKIE: &str = "tidegate_session";

const THIRTY_DAYS: i64 = 30 * 24 * 3600;

/// A `Set-Cookie` value that logs in until thirty days from now.
pub(crate) fn issue(key: &[u8], now_ms: i64) -> String {
    let value = sign(key, now_ms / 1000 + THIRTY_DAYS);
    format!("{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={THIRTY_DAYS}")
}

/// A `Set-Cookie` value that takes the cookie away.
pub(crate) fn clear() -> String {
    format!("{COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0")
}

fn sign(key: &[u8], expiry: i64) -> String {
    let signed = format!("v1.{expiry}");
    let signature = keyed(key).chain_update(&signed).finalize().into_bytes();
    format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
}

/// Whether a `Cookie` header holds a cookie of ours that is still good.
pub(crate) fn is_good(key: &[u8], header: &str, now_ms: i64) -> bool {
    let ours =
        header.split(';').filter_map(|pair| pair.trim().split_once('=')).filter(|(name, _)| *name == COOKIE);
    // Another gateway on this computer may have set one of the same name.
    ours.take(4).any(|(_, value)| verify(key, value, now_ms))
}

fn verify(key: &[u8], value: &str, now_ms: i64) -> bool {
    let Some((signed, signature)) = value.rsplit_once('.') else { return false };
    let Some(expiry) = signed.strip_prefix("v1.").and_then(|expiry| expiry.parse::<i64>().ok()) else {
        return false;
    };
    let Ok(signature) = BASE64_URL_SAFE_NO_PAD.decode(signature) else { return false };
    keyed(key).chain_update(signed).verify_slice(&signature).is_ok() && now_ms / 1000 < expiry
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_771_866_451_000;

    fn value(set_cookie: &str) -> String {
        set_cookie.split(';').next().unwrap().to_owned()
    }

    #[test]
    fn a_cookie_is_good_until_it_expires_and_only_under_its_own_key() {
        let cookie = value(&issue(b"key", NOW));
        assert!(is_good(b"key", &cookie, NOW));
        assert!(is_good(b"key", &format!("other=1; {cookie}; more=2"), NOW + (THIRTY_DAYS - 1) * 1000));
        assert!(!is_good(b"key", &cookie, NOW + THIRTY_DAYS * 1000));
        assert!(!is_good(b"another", &cookie, NOW));
    }

    #[test]
    fn a_cookie_that_was_changed_is_worth_nothing() {
        let cookie = value(&issue(b"key", NOW));
        let later = cookie
            .replace(&(NOW / 1000 + THIRTY_DAYS).to_string(), &(NOW / 1000 + 2 * THIRTY_DAYS).to_string());
        let unsigned = cookie.rsplit_once('.').unwrap().0.to_owned();
        let old = cookie.replace("v1.", "v0.");
        for forged in [
            later,
            unsigned,
            old,
            format!("{cookie}A"),
            format!("{COOKIE}="),
            COOKIE.to_owned(),
            String::new(),
        ] {
            assert!(!is_good(b"key", &forged, NOW), "{forged}");
        }
    }
}
