//! Texts with a fixed form: the pattern that editors see in the schema, and the check that decides.
//!
//! The two say the same thing twice, so that the program needs no regular expressions; a property test holds
//! them together.

/// A form that a text must have.
pub(crate) struct Format {
    /// For the JSON Schema.
    pub(crate) pattern: &'static str,
    pub(crate) accepts: fn(&str) -> bool,
    /// What was expected, in an error message.
    pub(crate) expected: &'static str,
}

pub(crate) const AGENT_ID: Format = Format {
    pattern: "^[a-z0-9][a-z0-9_-]{0,63}$",
    accepts: |text| {
        (1..=64).contains(&text.len())
            && !text.starts_with(['_', '-'])
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
    },
    expected: "a name of 1 to 64 lower-case letters, digits, - and _, with a letter or digit first",
};

pub(crate) const SQL_NAME: Format = Format {
    pattern: "^[a-z_][a-z0-9_]{0,62}$",
    accepts: |text| {
        (1..=63).contains(&text.len())
            && !text.starts_with(|first: char| first.is_ascii_digit())
            && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    },
    expected: "a name of 1 to 63 lower-case letters, digits and _, with no digit first",
};

pub(crate) const DURATION: Format = Format {
    pattern: "^[0-9]{1,9}(ms|s|m|h|d)$",
    accepts: |text| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        (1..=9).contains(&digits) && matches!(&text[digits..], "ms" | "s" | "m" | "h" | "d")
    },
    expected: "a duration such as 30s, 5m or 1h",
};

/// The format a schema's pattern stands for.
pub(crate) fn by_pattern(pattern: &str) -> Option<&'static Format> {
    const ALL: [&Format; 3] = [&AGENT_ID, &SQL_NAME, &DURATION];
    ALL.into_iter().find(|format| format.pattern == pattern)
}

/// Milliseconds of `30s`, `5m` or `1h`; nothing for another text.
pub fn duration_ms(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.find(|letter: char| !letter.is_ascii_digit())?)?;
    let unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::string::string_regex;

    fn of(format: &Format) -> impl Strategy<Value = String> {
        string_regex(format.pattern.trim_start_matches('^').trim_end_matches('$')).unwrap()
    }

    proptest! {
        #[test]
        fn what_a_pattern_allows_the_check_accepts(id in of(&AGENT_ID), name in of(&SQL_NAME), time in of(&DURATION)) {
            prop_assert!((AGENT_ID.accepts)(&id) && (SQL_NAME.accepts)(&name) && (DURATION.accepts)(&time));
        }
    }

    #[test]
    fn what_a_pattern_forbids_the_check_refuses() {
        for bad in ["", "-a", "_a", "A", "a b", "a/b", "..", "é", &"a".repeat(65)] {
            assert!(!(AGENT_ID.accepts)(bad), "{bad}");
        }
        for bad in ["", "1a", "a-b", "a\"b", "A", &"a".repeat(64)] {
            assert!(!(SQL_NAME.accepts)(bad), "{bad}");
        }
        for bad in ["", "5", "m", "5 m", "5min", "-5m", "1234567890s", "５m"] {
            assert!(!(DURATION.accepts)(bad), "{bad}");
        }
    }
}
