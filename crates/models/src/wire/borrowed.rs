//! Pieces of a frame that are read where they lie: a stream has thousands of frames, and most of them are one short
//! text.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer};
use serde_json::Value;

use crate::failure::{Failure, FailureKind};

/// Text, copied only where it has escapes. A type of its own, because serde copies a `Cow` inside an `Option`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// The first of a list. Vendors send lists where there is only ever one.
#[derive(Debug)]
pub(crate) struct First<T>(pub(crate) Option<T>);

impl<T> Default for First<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for First<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Seen<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Seen<T> {
            type Value = First<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<First<T>, A::Error> {
                let first = list.next_element()?;
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(First(first))
            }

            fn visit_unit<E>(self) -> Result<First<T>, E> {
                Ok(First(None))
            }
        }
        deserializer.deserialize_any(Seen(PhantomData))
    }
}

/// JSON text, or the JSON itself where a server forgot to write it as text.
#[derive(Debug)]
pub(crate) struct JsonText<'a>(Cow<'a, str>);

impl Deref for JsonText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Seen;
        impl<'de> Visitor<'de> for Seen {
            type Value = JsonText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or an object")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(JsonText(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(JsonText(Cow::Owned(text.to_owned())))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let value = Value::deserialize(MapAccessDeserializer::new(map))?;
                Ok(JsonText(Cow::Owned(value.to_string())))
            }
        }
        deserializer.deserialize_any(Seen)
    }
}

/// A frame that is not what the format says.
pub(crate) fn unreadable(error: &serde_json::Error) -> Failure {
    // The error quotes nothing of the frame but a word or a number of it.
    Failure::new(FailureKind::Broken, format!("a piece of the answer cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_escapes_is_not_copied_also_inside_an_option() {
        let read = |json| serde_json::from_str::<Option<Text<'_>>>(json).unwrap().unwrap().0;
        assert!(matches!(read(r#""plain ü""#), Cow::Borrowed("plain ü")));
        assert!(matches!(read(r#""a\nb""#), Cow::Owned(text) if text == "a\nb"));
    }

    #[test]
    fn the_first_of_a_list_may_be_missing() {
        let read = |json| serde_json::from_str::<First<u8>>(json).unwrap().0;
        assert_eq!([read("[1, 2]"), read("[]"), read("null")], [Some(1), None, None]);
    }

    #[test]
    fn json_text_may_be_json() {
        let read = |json| serde_json::from_str::<JsonText<'_>>(json).unwrap().to_owned();
        assert_eq!([read(r#""{\"a\": 1}""#), read(r#"{"a": 1}"#)], [r#"{"a": 1}"#, r#"{"a":1}"#]);
    }
}
