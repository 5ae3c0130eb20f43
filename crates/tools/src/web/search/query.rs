//! A question as a model asks it, checked.

use schemars::JsonSchema;
use serde::Deserialize;

const MOST: usize = 10;
const LONGEST_QUERY: usize = 400;

#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(in crate::web) struct SearchArgs {
    /// What to search for.
    #[schemars(length(min = 1, max = 400))]
    pub(in crate::web) query: String,
    /// How many results.
    #[schemars(range(min = 1, max = 10))]
    #[serde(default)]
    pub(in crate::web) count: Option<usize>,
    /// Two letters, such as DE: where results should come from.
    #[serde(default)]
    pub(in crate::web) country: Option<String>,
    /// The language of the results, such as de.
    #[serde(default)]
    pub(in crate::web) search_lang: Option<String>,
    /// The language of dates and the like, such as de-DE.
    #[serde(default)]
    pub(in crate::web) ui_lang: Option<String>,
    /// pd, pw, pm or py for the past day, week, month or year, or a range such as 2026-01-01to2026-01-31.
    #[serde(default)]
    pub(in crate::web) freshness: Option<String>,
}

/// A question that makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) text: String,
    pub(super) count: usize,
    /// In upper case.
    pub(super) country: Option<String>,
    pub(super) language: Option<String>,
    pub(super) ui_language: Option<String>,
    pub(super) freshness: Option<Freshness>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Freshness {
    Day,
    Week,
    Month,
    Year,
    /// Dates as `YYYY-MM-DD`, both included.
    Range(String, String),
}

impl Query {
    pub(super) fn read(args: &SearchArgs, default_count: usize) -> Result<Self, String> {
        let text = args.query.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() || text.chars().count() > LONGEST_QUERY {
            return Err(format!("query: 1 to {LONGEST_QUERY} characters"));
        }
        let code = |name: &str, value: &Option<String>, longest: usize| match value {
            None => Ok(None),
            Some(value) => {
                let letters = value.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
                let fits = (2..=longest).contains(&value.len()) && letters;
                fits.then(|| Some(value.clone())).ok_or_else(|| format!("{name}: {value:?} is not a code"))
            }
        };
        Ok(Self {
            text,
            count: args.count.unwrap_or(default_count).clamp(1, MOST),
            country: code("country", &args.country, 3)?.map(|country| country.to_ascii_uppercase()),
            language: code("search_lang", &args.search_lang, 10)?,
            ui_language: code("ui_lang", &args.ui_lang, 10)?,
            freshness: args.freshness.as_deref().map(freshness).transpose()?,
        })
    }
}

fn freshness(text: &str) -> Result<Freshness, String> {
    let bad =
        || format!("freshness: {text:?} is not pd, pw, pm, py or a range such as 2026-01-01to2026-01-31");
    Ok(match text {
        "pd" => Freshness::Day,
        "pw" => Freshness::Week,
        "pm" => Freshness::Month,
        "py" => Freshness::Year,
        range => {
            let (from, to) = range.split_once("to").ok_or_else(bad)?;
            if !is_date(from) || !is_date(to) || from > to {
                return Err(bad());
            }
            Freshness::Range(from.to_owned(), to.to_owned())
        }
    })
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| bytes[range].iter().all(u8::is_ascii_digit);
    bytes.len() == 10
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && digits(0..4)
        && digits(5..7)
        && digits(8..10)
        && ("01"..="12").contains(&&text[5..7])
        && ("01"..="31").contains(&&text[8..10])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(freshness: &str) -> Result<Query, String> {
        let args = SearchArgs {
            query: "x".to_owned(),
            freshness: Some(freshness.to_owned()),
            ..SearchArgs::default()
        };
        Query::read(&args, 5)
    }

    #[test]
    fn a_range_of_days_is_read_and_nonsense_is_not() {
        assert_eq!(read("pw").unwrap().freshness, Some(Freshness::Week));
        let range = Freshness::Range("2026-01-01".to_owned(), "2026-01-31".to_owned());
        assert_eq!(read("2026-01-01to2026-01-31").unwrap().freshness, Some(range));
        for bad in [
            "",
            "day",
            "PD",
            "2026-01-31to2026-01-01",
            "2026-13-01to2026-13-02",
            "2026-1-1to2026-1-2",
            "to",
            "été1to2026-01-01",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_question_has_words_and_codes_are_codes() {
        for query in ["", "  \n ", &"x".repeat(401)] {
            let args = SearchArgs { query: query.to_owned(), ..SearchArgs::default() };
            assert!(Query::read(&args, 5).is_err());
        }
        let args = SearchArgs {
            query: " a\n b ".to_owned(),
            count: Some(99),
            country: Some("de".to_owned()),
            ..SearchArgs::default()
        };
        let query = Query::read(&args, 5).unwrap();
        assert_eq!((query.text.as_str(), query.count, query.country.as_deref()), ("a b", 10, Some("DE")));
        let args =
            SearchArgs { query: "x".to_owned(), country: Some("d&e".to_owned()), ..SearchArgs::default() };
        assert!(Query::read(&args, 5).is_err());
    }
}
