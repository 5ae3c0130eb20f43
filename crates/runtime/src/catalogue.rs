//! The message catalogue: what people read, in English and Simplified Chinese.
//!
//! A text is a constant with both languages, so that neither can be forgotten. Codes, keys and field names are never
//! translated. Each surface keeps its texts in a module of its own, built from [`Text`].

use std::fmt::Display;

/// A language people can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    #[default]
    English,
    Chinese,
}

impl Language {
    /// Reads a tag such as `en`, `zh-CN` or `zh_CN.UTF-8`.
    pub fn parse(tag: &str) -> Option<Self> {
        let tag = tag.to_ascii_lowercase();
        match tag.split(['-', '_', '.', '@']).next() {
            Some("zh") => Some(Self::Chinese),
            Some("en" | "c" | "posix") => Some(Self::English),
            _ => None,
        }
    }

    /// The language of the environment: `TIDEGATE_LANG`, then the usual locale variables in their usual order.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Self {
        ["TIDEGATE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"]
            .into_iter()
            .filter_map(variable)
            .find(|value| !value.is_empty())
            .and_then(|value| Self::parse(&value))
            .unwrap_or_default()
    }
}

/// One text in every language. `{name}` marks what is filled in.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    pub en: &'static str,
    pub zh: &'static str,
}

impl Text {
    pub const fn new(en: &'static str, zh: &'static str) -> Self {
        Self { en, zh }
    }

    pub fn in_language(&self, language: Language) -> &'static str {
        match language {
            Language::English => self.en,
            Language::Chinese => self.zh,
        }
    }

    /// The text with its places filled. A value is never read as a pattern again.
    pub fn fill(&self, language: Language, values: &[(&str, &dyn Display)]) -> String {
        let mut out = String::new();
        let mut rest = self.in_language(language);
        while let Some(open) = rest.find('{') {
            out.push_str(&rest[..open]);
            let Some(close) = rest[open..].find('}') else { break };
            let name = &rest[open + 1..open + close];
            match values.iter().find(|(key, _)| *key == name) {
                Some((_, value)) => out.push_str(&value.to_string()),
                None => out.push_str(&rest[open..=open + close]),
            }
            rest = &rest[open + close + 1..];
        }
        out.push_str(rest);
        out
    }

    /// The names of the places, sorted. Both languages must have the same ones: a test of each catalogue asks.
    pub fn places(text: &'static str) -> Vec<&'static str> {
        let mut places: Vec<_> = text
            .split('{')
            .skip(1)
            .filter_map(|part| part.split_once('}').map(|(name, _)| name))
            .filter(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_') && !name.is_empty())
            .collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// Declares the texts of a surface and `ALL`, which its test walks.
#[macro_export]
macro_rules! texts {
    ($($name:ident: $en:expr, $zh:expr;)+) => {
        $(pub const $name: $crate::catalogue::Text = $crate::catalogue::Text::new($en, $zh);)+
        #[cfg(test)]
        pub(crate) const ALL: &[(&str, $crate::catalogue::Text)] = &[$((stringify!($name), $name)),+];
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_chooses_the_language() {
        let with = |pairs: &'static [(&'static str, &'static str)]| {
            Language::from_environment(|name| {
                pairs.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).to_owned())
            })
        };
        assert_eq!(with(&[]), Language::English);
        assert_eq!(with(&[("LANG", "zh_CN.UTF-8")]), Language::Chinese);
        assert_eq!(with(&[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "C")]), Language::English);
        assert_eq!(with(&[("LANG", "en_US.UTF-8"), ("TIDEGATE_LANG", "zh-CN")]), Language::Chinese);
        assert_eq!(with(&[("LANG", "fr_FR.UTF-8")]), Language::English);
    }

    #[test]
    fn a_filled_value_is_not_a_pattern() {
        let text = Text::new("{a} and {b} and {c}", "{a} 和 {b} 和 {c}");
        assert_eq!(text.fill(Language::English, &[("a", &"{b}"), ("b", &1)]), "{b} and 1 and {c}");
        assert_eq!(text.fill(Language::Chinese, &[("a", &"甲"), ("b", &2), ("c", &3)]), "甲 和 2 和 3");
    }
}
