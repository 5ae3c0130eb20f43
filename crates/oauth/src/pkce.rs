//! Proof that whoever asks for the tokens is who began the login (RFC 7636, S256).

use aws_lc_rs::{digest, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tidegate_secrets::Secret;

use crate::LoginError;

#[derive(Debug, Clone)]
pub struct Pkce {
    /// Shown with the code, at the end.
    pub verifier: Secret,
    /// Its digest, shown at the beginning.
    pub challenge: String,
    /// Ties the answer to this login.
    pub state: String,
}

impl Pkce {
    pub fn new() -> Result<Self, LoginError> {
        let verifier = random::<32>()?;
        Ok(Self { challenge: challenge(&verifier), verifier: Secret::new(verifier), state: random::<16>()? })
    }
}

fn random<const N: usize>() -> Result<String, LoginError> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| LoginError::Randomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_the_one_of_the_standard() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn no_two_logins_have_anything_in_common() {
        let (one, two) = (Pkce::new().unwrap(), Pkce::new().unwrap());
        assert_ne!(one.verifier, two.verifier);
        assert_ne!(one.state, two.state);
        assert_eq!(one.verifier.expose().len(), 43);
        assert_eq!(one.challenge, challenge(one.verifier.expose()));
    }
}
