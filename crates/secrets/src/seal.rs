//! Sealing: AES-256-GCM over the secret part of a credential.
//!
//! The profile's id, provider and kind are sealed along with it, so that a sealed text opens only in the place for
//! which it was made: moved to another profile it is refused.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::error::SecretsError;

const KEY_LEN: usize = 32;
/// The way of sealing. Another one gets another number.
const SEAL_VERSION: u32 = 1;

/// A key that seals credentials. It is wiped when it is dropped and has no text but [`SealingKey::encode`].
#[derive(Clone)]
pub(crate) struct SealingKey(Zeroizing<[u8; KEY_LEN]>);

impl SealingKey {
    pub(crate) fn random() -> Result<Self, SecretsError> {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        rand::fill(key.as_mut_slice()).map_err(|_| SecretsError::Randomness)?;
        Ok(Self(key))
    }

    /// For the file or the keychain that keeps it.
    pub(crate) fn encode(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.0.as_slice()))
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).ok()?);
        Some(Self(Zeroizing::new(bytes.as_slice().try_into().ok()?)))
    }

    fn cipher(&self) -> Option<LessSafeKey> {
        Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, self.0.as_slice()).ok()?))
    }
}

/// Where a sealed text belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding<'a> {
    pub(crate) id: &'a str,
    pub(crate) provider: &'a str,
    pub(crate) kind: &'a str,
}

impl Binding<'_> {
    /// As a JSON list, so that no two places have the same bytes.
    fn bytes(self) -> Vec<u8> {
        serde_json::json!([SEAL_VERSION, self.id, self.provider, self.kind]).to_string().into_bytes()
    }
}

/// Nonce and sealed text, in base64.
pub(crate) fn seal(key: &SealingKey, binding: Binding<'_>, plain: &[u8]) -> Result<String, SecretsError> {
    let mut nonce = [0; NONCE_LEN];
    rand::fill(&mut nonce).map_err(|_| SecretsError::Randomness)?;
    let cipher = key.cipher().ok_or(SecretsError::Randomness)?;
    // Room for the tag, so that the plain text is sealed in place and never left behind by a larger copy.
    let mut sealed = Zeroizing::new(Vec::with_capacity(plain.len() + AES_256_GCM.tag_len()));
    sealed.extend_from_slice(plain);
    cipher
        .seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(binding.bytes()),
            &mut *sealed,
        )
        .map_err(|_| SecretsError::Randomness)?;
    Ok(STANDARD.encode([nonce.as_slice(), &sealed].concat()))
}

/// `None` when the key, the place or the text is not the one it was sealed with.
pub(crate) fn open(key: &SealingKey, binding: Binding<'_>, sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(STANDARD.decode(sealed).ok()?);
    let (nonce, text) = bytes.split_at_mut_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let plain = key.cipher()?.open_in_place(nonce, Aad::from(binding.bytes()), text).ok()?;
    Some(Zeroizing::new(plain.to_vec()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLACE: Binding<'static> = Binding { id: "p/a", provider: "p", kind: "api_key" };

    #[test]
    fn a_sealed_text_opens_only_in_its_place() {
        let key = SealingKey::random().unwrap();
        let sealed = seal(&key, PLACE, b"hidden").unwrap();
        assert_eq!(open(&key, PLACE, &sealed).unwrap().as_slice(), b"hidden");
        for place in [
            Binding { id: "p/b", ..PLACE },
            Binding { provider: "q", ..PLACE },
            Binding { kind: "token", ..PLACE },
            Binding { id: "p/a\",\"p", ..PLACE },
        ] {
            assert!(open(&key, place, &sealed).is_none(), "{place:?}");
        }
    }

    #[test]
    fn another_key_opens_nothing() {
        let sealed = seal(&SealingKey::random().unwrap(), PLACE, b"hidden").unwrap();
        assert!(open(&SealingKey::random().unwrap(), PLACE, &sealed).is_none());
    }

    #[test]
    fn the_same_text_is_never_sealed_the_same_way_twice() {
        let key = SealingKey::random().unwrap();
        assert_ne!(seal(&key, PLACE, b"hidden").unwrap(), seal(&key, PLACE, b"hidden").unwrap());
    }

    #[test]
    fn a_key_of_another_length_is_no_key() {
        assert!(SealingKey::decode(&STANDARD.encode([7; 31])).is_none());
        assert!(SealingKey::decode("not base64!").is_none());
        let key = SealingKey::random().unwrap();
        assert_eq!(SealingKey::decode(&key.encode()).unwrap().0, key.0);
    }

    proptest! {
        #[test]
        fn any_text_is_opened_as_it_was_sealed(plain in any::<Vec<u8>>()) {
            let key = SealingKey::random().unwrap();
            let sealed = seal(&key, PLACE, &plain).unwrap();
            let opened = open(&key, PLACE, &sealed).unwrap();
            prop_assert_eq!(opened.as_slice(), plain.as_slice());
        }

        #[test]
        fn one_changed_bit_is_refused(plain in any::<Vec<u8>>(), at in any::<prop::sample::Index>(), bit in 0..8_u8) {
            let key = SealingKey::random().unwrap();
            let mut bytes = STANDARD.decode(seal(&key, PLACE, &plain).unwrap()).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(open(&key, PLACE, &STANDARD.encode(bytes)).is_none());
        }

        #[test]
        fn nonsense_is_refused_without_a_panic(sealed in any::<String>()) {
            prop_assert!(open(&SealingKey::random().unwrap(), PLACE, &sealed).is_none());
        }
    }
}
