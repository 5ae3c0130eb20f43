//! The local token: the secret of a home. Whoever can read the file owns the home.
//!
//! Programs send it as `Authorization: Bearer`. Cookies are signed with a key derived from it, so a new token ends
//! every login.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tidegate_runtime::RandomnessError;
use tidegate_secrets::Secret;

use crate::error::ServeError;

/// Bytes of randomness in a token or a code.
pub(crate) const TOKEN_BYTES: usize = 32;

/// The secret of a home.
#[derive(Debug, Clone)]
pub struct LocalToken {
    text: Secret,
}

impl LocalToken {
    /// Reads the token, or makes it at the first start. The caller holds the home's lock.
    pub fn load_or_create(path: &Path) -> Result<Self, ServeError> {
        let fail = |cause| ServeError::Token { path: path.to_owned(), cause };
        match fs::read_to_string(path) {
            Ok(text) => {
                tighten(path).map_err(fail)?;
                let text = text.trim();
                if text.len() < BASE64_URL_SAFE_NO_PAD.encode([0; TOKEN_BYTES]).len() {
                    return Err(ServeError::TokenDamaged { path: path.to_owned() });
                }
                Ok(Self { text: Secret::new(text) })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let text = random_text::<TOKEN_BYTES>()?;
                store(path, &text).map_err(fail)?;
                Ok(Self { text: Secret::new(text) })
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(ServeError::TokenDamaged { path: path.to_owned() })
            }
            Err(cause) => Err(fail(cause)),
        }
    }

    /// A recorded case brings its own.
    pub(crate) fn of(text: &str) -> Self {
        Self { text: Secret::new(text) }
    }

    /// The token, for the one who may have it.
    pub fn expose(&self) -> &str {
        self.text.expose()
    }

    /// Compares without telling by its time how much was right.
    pub(crate) fn is(&self, given: &str) -> bool {
        same_secret(self.expose(), given)
    }

    /// The key that signs cookies.
    pub(crate) fn cookie_key(&self) -> [u8; 32] {
        self.keyed().chain_update("tidegate web session v1").finalize().into_bytes().into()
    }

    /// The key that device tokens are derived with.
    pub(crate) fn device_key(&self) -> [u8; 32] {
        self.keyed().chain_update("tidegate device tokens v1").finalize().into_bytes().into()
    }

    fn keyed(&self) -> Hmac<Sha256> {
        keyed(self.expose().as_bytes())
    }
}

/// Compares without telling by its time how much was right, nor how long the secret is.
pub(crate) fn same_secret(secret: &str, given: &str) -> bool {
    let keyed = || keyed(secret.as_bytes());
    let expected = keyed().chain_update(secret).finalize().into_bytes();
    keyed().chain_update(given).verify(&expected).is_ok()
}

#[expect(clippy::expect_used, reason = "this code takes a key of any length")]
pub(crate) fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

/// Random bytes as text that needs no quoting anywhere.
pub(crate) fn random_text<const N: usize>() -> Result<String, RandomnessError> {
    let mut random = [0; N];
    getrandom::fill(&mut random).map_err(|_| RandomnessError)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(random))
}

/// Somebody may have copied the file with a wider mode.
fn tighten(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.permissions().mode() & 0o077 != 0 {
        tracing::warn!(path = %path.display(), "the token could be read by others; its mode is 0600 again");
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
    }
    Ok(())
}

/// Whole or not at all: a torn token would lock everybody out.
pub(crate) fn store(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let fresh = path.with_extension("new");
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_for_its_owner_only() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("credentials").join("local-token");
        let made = LocalToken::load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let read = LocalToken::load_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(made.expose(), read.expose());
        assert!(made.is(read.expose()) && made.cookie_key() == read.cookie_key());
        assert!(
            !made.is("") && !made.is(&made.expose()[1..]) && !format!("{made:?}").contains(made.expose())
        );
    }

    #[test]
    fn a_file_without_a_token_is_named_and_never_used() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("local-token");
        for content in [&b""[..], b"short\n", b"\xff\xfe"] {
            fs::write(&path, content).unwrap();
            let error = LocalToken::load_or_create(&path).unwrap_err();
            assert!(matches!(error, ServeError::TokenDamaged { .. }), "{error}");
        }
    }
}
