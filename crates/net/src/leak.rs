//! The last look at what goes out: no secret that is known here may be in it.
//!
//! It is a second net. Secrets are kept away from models and programs in the first place; what slips through is found
//! here as it is, in hexadecimal, in base64 at any of its three alignments, and behind one or two layers of percent
//! signs. A secret that was taken apart, encrypted or packed is not found. One pass over the bytes, whatever the number
//! of secrets. What is said names the secret and never quotes it.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use tidegate_secrets::Secret;

/// A shorter text is no secret: it would be found everywhere.
const SHORTEST: usize = 8;
/// After which secrets are asked for again: some are renewed, some are added.
const FRESH: Duration = Duration::from_mins(1);

/// A secret with the name that people know it by.
pub type NamedSecret = (String, Secret);
type Source = dyn Fn() -> Vec<NamedSecret> + Send + Sync;

/// A secret that was about to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leak {
    /// Its name, such as `auth.profiles.openai:default`, or what kind of key it looks like.
    pub secret: String,
}

/// A text that secrets were taken out of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    pub text: String,
    /// Their names, each once.
    pub secrets: Vec<String>,
}

/// Finds secrets in what goes out. Clones share what is known. The default knows no secret of this home, but knows what
/// vendors' keys look like.
#[derive(Clone, Default)]
pub struct LeakScan {
    source: Option<Arc<Source>>,
    known: Arc<RwLock<Option<Known>>>,
}

#[derive(Clone)]
struct Known {
    read: Instant,
    search: Option<Arc<Search>>,
}

struct Search {
    automaton: AhoCorasick,
    /// For each of its patterns, which secret it is a form of.
    names: Vec<String>,
}

impl fmt::Debug for LeakScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeakScan").finish_non_exhaustive()
    }
}

impl LeakScan {
    /// Looks for these.
    pub fn of(secrets: Vec<NamedSecret>) -> Self {
        Self::reading(move || secrets.clone())
    }

    /// Looks for what this reads. It is asked off the threads that others wait for, at the first look and again when the
    /// last answer is old.
    pub fn reading(source: impl Fn() -> Vec<NamedSecret> + Send + Sync + 'static) -> Self {
        Self { source: Some(Arc::new(source)), known: Arc::default() }
    }

    /// The first secret in any of these texts.
    pub async fn find(&self, texts: &[&[u8]]) -> Option<Leak> {
        let search = self.search().await;
        texts.iter().find_map(|text| find(search.as_deref(), text))
    }

    /// The same for the secrets that are known here, whatever else looks like one.
    pub async fn find_known(&self, texts: &[&[u8]]) -> Option<Leak> {
        let search = self.search().await?;
        texts.iter().find_map(|text| layers(text, |layer| search.find(layer))).map(|secret| Leak { secret })
    }

    /// The text with `mark` in place of every secret that is known here; nothing if there is none in it.
    pub async fn redact(&self, text: &str, mark: &str) -> Option<Redacted> {
        let search = self.search().await?;
        search.redact(text, mark)
    }

    async fn search(&self) -> Option<Arc<Search>> {
        let source = self.source.clone()?;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| known.read.elapsed() < FRESH) {
            return known.search;
        }
        let held = Arc::clone(&self.known);
        let reading = tidegate_runtime::spawn_blocking("reading secrets to look for", move || {
            let known = Known { read: Instant::now(), search: Search::of(&source()).map(Arc::new) };
            *held.write().unwrap_or_else(PoisonError::into_inner) = Some(known.clone());
            known.search
        });
        reading.join().await.ok().flatten()
    }
}

fn find(search: Option<&Search>, text: &[u8]) -> Option<Leak> {
    let look = |layer: &[u8]| search.and_then(|search| search.find(layer)).or_else(|| shape(layer));
    layers(text, look).map(|secret| Leak { secret })
}

/// The first answer about a text as it is, and behind one and two layers of percent signs.
fn layers<T>(text: &[u8], look: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    let once = without_percents(text);
    let twice = once.as_deref().and_then(without_percents);
    [Some(text), once.as_deref(), twice.as_deref()].into_iter().flatten().find_map(look)
}

/// A key of a vendor, whoever's it is.
fn shape(text: &[u8]) -> Option<String> {
    let shape = tidegate_runtime::credential_shape(&String::from_utf8_lossy(text))?;
    Some(format!("a key that begins with {shape}"))
}

impl Search {
    fn of(secrets: &[NamedSecret]) -> Option<Self> {
        let (mut patterns, mut names) = (Vec::new(), Vec::new());
        for (name, secret) in secrets {
            for form in forms(secret.expose()) {
                patterns.push(form);
                names.push(name.clone());
            }
        }
        if patterns.is_empty() {
            return None;
        }
        // Where one secret begins with another, the rest of the longer one is secret too.
        let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns);
        automaton.ok().map(|automaton| Self { automaton, names })
    }

    fn redact(&self, text: &str, mark: &str) -> Option<Redacted> {
        let (mut kept, mut secrets, mut end) = (String::new(), Vec::new(), 0);
        for found in self.automaton.find_iter(text) {
            // A form of a secret is text, so that it begins and ends between characters.
            kept.push_str(text.get(end..found.start()).unwrap_or_default());
            kept.push_str(mark);
            end = found.end();
            secrets.extend(self.names.get(found.pattern().as_usize()).cloned());
        }
        kept.push_str(text.get(end..).unwrap_or_default());
        // Behind percent signs there is no place to put a mark at: nothing of the text is kept.
        if let Some(hidden) = layers(kept.as_bytes(), |layer| self.find(layer)) {
            secrets.push(hidden);
            mark.clone_into(&mut kept);
        }
        secrets.sort();
        secrets.dedup();
        (!secrets.is_empty()).then_some(Redacted { text: kept, secrets })
    }

    fn find(&self, text: &[u8]) -> Option<String> {
        let found = self.automaton.find(text)?;
        self.names.get(found.pattern().as_usize()).cloned()
    }
}

/// Everything that a secret looks like on its way out. A header's value (`Bearer key`) has its key as a part.
fn forms(secret: &str) -> Vec<Vec<u8>> {
    let secret = secret.trim();
    let parts = secret.split_whitespace().filter(|part| *part != secret);
    let mut forms = Vec::new();
    for text in std::iter::once(secret).chain(parts).filter(|text| text.len() >= SHORTEST) {
        let bytes = text.as_bytes();
        forms.push(bytes.to_vec());
        let hex = in_hex(bytes);
        forms.push(hex.to_uppercase().into_bytes());
        forms.push(hex.into_bytes());
        for before in 0..3 {
            forms.extend(in_base64(before, bytes));
        }
    }
    forms
}

fn in_hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

/// The characters that a text always has in base64, in both alphabets, when so many bytes (of every three) precede it:
/// those that share no bit with what is before or after it.
fn in_base64(before: usize, text: &[u8]) -> [Vec<u8>; 2] {
    let mut padded = vec![0; before];
    padded.extend_from_slice(text);
    let (first, last) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
    [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)]
        .map(|text| text.as_bytes()[first..last].to_vec())
}

/// The bytes behind the percent signs, if there are any.
fn without_percents(text: &[u8]) -> Option<Vec<u8>> {
    let hex = |byte: u8| char::from(byte).to_digit(16);
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let coded = (*first == b'%').then(|| Some(hex(*tail.first()?)? * 16 + hex(*tail.get(1)?)?)).flatten();
        if let Some(byte) = coded.and_then(|byte| u8::try_from(byte).ok()) {
            plain.push(byte);
            rest = &tail[2..];
        } else {
            plain.push(*first);
            rest = tail;
        }
    }
    (plain.len() < text.len()).then_some(plain)
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "tide/canary+4711?x";

    fn search() -> Search {
        Search::of(&[("env.CANARY".to_owned(), Secret::new(SECRET))]).unwrap()
    }

    fn found(text: impl AsRef<[u8]>) -> bool {
        find(Some(&search()), text.as_ref()).is_some()
    }

    fn percents(text: &str, all: bool) -> String {
        let coded = |byte: u8| match byte {
            b'a'..=b'z' | b'0'..=b'9' if !all => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        };
        text.bytes().map(coded).collect()
    }

    #[test]
    fn of_two_secrets_of_which_one_begins_with_the_other_nothing_is_left() {
        let known = ["abcd1234", "abcd1234-efgh5678"].map(|text| (text.to_owned(), Secret::new(text)));
        let redacted =
            Search::of(&known).unwrap().redact("it is abcd1234-efgh5678, not abcd1234", "*").unwrap();
        assert_eq!(redacted.text, "it is *, not *");
        assert_eq!(redacted.secrets, ["abcd1234", "abcd1234-efgh5678"]);
    }

    #[test]
    fn a_secret_is_found_in_every_form_and_named() {
        let hex = in_hex(SECRET.as_bytes());
        assert!(hex.starts_with("746964652f"));
        for form in [
            SECRET.to_owned(),
            hex.to_uppercase(),
            hex,
            STANDARD.encode(SECRET),
            URL_SAFE_NO_PAD.encode(SECRET),
            percents(SECRET, false),
            percents(SECRET, true),
            percents(&percents(SECRET, true), true),
            percents(&STANDARD.encode(SECRET), true),
        ] {
            let leak = find(Some(&search()), format!("before{form}after").as_bytes());
            assert_eq!(leak, Some(Leak { secret: "env.CANARY".to_owned() }), "{form}");
        }
        for innocent in ["", "tide/canary", "%", "%zz%4", "dGlkZQ=="] {
            assert!(!found(innocent), "{innocent}");
        }
    }

    #[test]
    fn a_keys_part_of_a_headers_value_counts_and_a_short_text_does_not() {
        let search = Search::of(&[("a".to_owned(), Secret::new("Bearer of-a-secret"))]).unwrap();
        assert!(find(Some(&search), b"x=of-a-secret").is_some());
        assert!(find(Some(&search), b"authorization: Bearer other").is_none());
        assert!(Search::of(&[("b".to_owned(), Secret::new("short"))]).is_none());
    }

    #[test]
    fn secrets_are_taken_out_of_a_text_and_named() {
        let search = search();
        let text = format!("öne {SECRET} and {} too", STANDARD.encode(SECRET));
        let Redacted { text, secrets } = search.redact(&text, "[x]").unwrap();
        assert!(text.starts_with("öne [x] and [x]") && text.ends_with(" too"), "{text}");
        assert_eq!(secrets, ["env.CANARY"]);
        assert_eq!(search.redact(&percents(SECRET, true), "[x]").unwrap().text, "[x]");
        assert_eq!(search.redact("nothing of the kind", "[x]"), None);
    }

    #[test]
    fn a_vendors_key_is_one_whoever_it_belongs_to() {
        let leak = find(None, format!("k=sk-{}", "a1".repeat(10)).as_bytes()).unwrap();
        assert_eq!(leak.secret, "a key that begins with sk-");
        let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P";
        assert!(find(None, token.as_bytes()).is_some());
        // Pages are turned with such things.
        assert!(
            find(None, b"cursor=eyJpZCI6MTIzNDU2Nzg5MCwiZGlyIjoibmV4dCIsInNvcnQiOiJ1cGRhdGVkIn0").is_none()
        );
    }

    #[tokio::test]
    async fn secrets_are_asked_for_once_and_not_before_the_first_look() {
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counting = Arc::clone(&asked);
        let scan = LeakScan::reading(move || {
            counting.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            vec![("env.CANARY".to_owned(), Secret::new(SECRET))]
        });
        assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 0);
        for _ in 0..3 {
            assert!(scan.clone().find(&[b"innocent", SECRET.as_bytes()]).await.is_some());
        }
        assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
        assert_eq!(LeakScan::default().find(&[SECRET.as_bytes()]).await, None);
    }

    proptest! {
        #[test]
        fn base64_hides_no_secret_whatever_stands_around_it(
            before in prop::collection::vec(any::<u8>(), 0..7), after in prop::collection::vec(any::<u8>(), 0..7)
        ) {
            let all = [before.as_slice(), SECRET.as_bytes(), after.as_slice()].concat();
            prop_assert!(found(STANDARD.encode(&all)));
            prop_assert!(found(URL_SAFE_NO_PAD.encode(&all)));
        }

        #[test]
        fn any_bytes_are_looked_at_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = found(bytes);
        }
    }
}
