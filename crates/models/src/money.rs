//! Tokens and money as people read them, and tokens as vendors write them.

use serde_json::Value;
use tidegate_protocol::Usage;

/// Dollars with two places, or four where two would show nothing.
pub fn format_usd(dollars: f64) -> String {
    if dollars >= 0.01 { format!("${dollars:.2}") } else { format!("${dollars:.4}") }
}

/// Tokens in three digits or so: `999`, `1.1k`, `11k`, `1.3m`.
pub fn format_tokens(tokens: u64) -> String {
    let rounded = |unit: u64| tokens.saturating_add(unit / 2) / unit;
    if tokens < 1_000 {
        return tokens.to_string();
    }
    // The unit is chosen by what would be shown, so that nothing is ever a thousand of a unit.
    let (tenths, thousands) = (rounded(100), rounded(1_000));
    if tenths < 100 {
        return format!("{}.{}k", tenths / 10, tenths % 10);
    }
    if thousands < 1_000 {
        return format!("{thousands}k");
    }
    let tenths = rounded(100_000);
    format!("{}.{}m", tenths / 10, tenths % 10)
}

/// What somebody says about tokens, as far as they said it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportedUsage {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cache_read: Option<u64>,
    pub cache_write: Option<u64>,
    pub total: Option<u64>,
}

impl ReportedUsage {
    /// Whether any token was counted.
    pub fn is_nonzero(&self) -> bool {
        self.parts().into_iter().chain([self.total]).flatten().any(|tokens| tokens > 0)
    }

    /// The tokens that were sent, if any is known.
    pub fn prompt(&self) -> Option<u64> {
        Some(self.tokens().prompt()).filter(|tokens| *tokens > 0)
    }

    /// As we count them; what was not said is none.
    pub fn tokens(&self) -> Usage {
        let [input, output, cache_read, cache_write] = self.parts().map(Option::unwrap_or_default);
        Usage { input, output, cache_read, cache_write, ..Usage::default() }
    }

    fn parts(&self) -> [Option<u64>; 4] {
        [self.input, self.output, self.cache_read, self.cache_write]
    }
}

/// The tokens in an object of any vendor's style; none when it says nothing of tokens.
pub fn normalize_usage(raw: &Value) -> Option<ReportedUsage> {
    let first = |names: &[&str]| names.iter().find_map(|name| count(raw.get(name)?));
    let usage = ReportedUsage {
        input: first(&["input", "inputTokens", "input_tokens", "promptTokens", "prompt_tokens"]),
        output: first(&["output", "outputTokens", "output_tokens", "completionTokens", "completion_tokens"]),
        cache_read: first(&["cacheRead", "cache_read", "cache_read_input_tokens"]),
        cache_write: first(&["cacheWrite", "cache_write", "cache_creation_input_tokens"]),
        total: first(&["total", "totalTokens", "total_tokens"]),
    };
    (usage != ReportedUsage::default()).then_some(usage)
}

/// A count of tokens. There is no such thing as less than none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, which is meant")]
fn count(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().map(|number| number as u64))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Price;

    #[test]
    fn tokens_and_dollars_are_shown_in_few_digits() {
        // Tokens are whole here, so the fractions among the vectors are dollars only. 999999 is a million to a reader.
        let cases = [
            (0, "0", "$0.0000"),
            (999, "999", "$999.00"),
            (1_000, "1.0k", "$1000.00"),
            (1_050, "1.1k", "$1050.00"),
            (9_999, "10k", "$9999.00"),
            (10_000, "10k", "$10000.00"),
            (10_500, "11k", "$10500.00"),
            (999_999, "1.0m", "$999999.00"),
            (1_250_000, "1.3m", "$1250000.00"),
        ];
        for (number, tokens, usd) in cases {
            assert_eq!(format_tokens(number), tokens);
            assert_eq!(format_usd(f64::from(u32::try_from(number).unwrap())), usd);
        }
        for (dollars, usd) in [(0.01, "$0.01"), (0.005, "$0.0050"), (12.345, "$12.35")] {
            assert_eq!(format_usd(dollars), usd);
        }
    }

    #[test]
    fn tokens_cost_what_the_price_says() {
        let usual = Price { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };
        let cheap = Price { input: 0.1, output: 0.2, cache_read: 0.0, cache_write: 0.0 };
        let plain = Price { input: 2.5, output: 1.0, cache_read: 1.0, cache_write: 1.0 };
        let million =
            json!({"input": 1_000_000, "output": 1_000_000, "cacheRead": 1_000_000, "cacheWrite": 1_000_000});
        let cases = [
            (json!({"input": 1000, "output": 500}), usual, 0.0105, "$0.01"),
            (million, usual, 22.05, "$22.05"),
            // Nobody is paid for tokens: fewer than none is none.
            (json!({"input": -10, "output": 5}), usual, 0.000_075, "$0.0001"),
            (json!({"cacheRead": 123_456}), usual, 0.037_036_8, "$0.04"),
            (json!({"input": 333, "output": 777}), cheap, 0.000_188_7, "$0.0002"),
            (json!({"input": 2_000_000}), plain, 5.0, "$5.00"),
        ];
        for (usage, price, usd, text) in cases {
            let cost = price.of(&normalize_usage(&usage).unwrap().tokens()).usd();
            assert!((cost - usd).abs() < 1e-9, "{usage}: {cost}");
            assert_eq!(format_usd(cost), text);
        }
        assert_eq!(normalize_usage(&Value::Null), None);
    }

    #[test]
    fn tokens_are_read_in_every_vendors_words() {
        let said = |input, output, cache_read, cache_write, total| {
            Some(ReportedUsage { input, output, cache_read, cache_write, total })
        };
        let anthropic = json!({
            "input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4,
        });
        let cases = [
            (Value::Null, None, false, None),
            (json!({"input": 1, "output": 2}), said(Some(1), Some(2), None, None, None), true, Some(1)),
            (anthropic, said(Some(1), Some(2), Some(3), Some(4), None), true, Some(8)),
            (
                json!({"promptTokens": 1, "totalTokens": 9}),
                said(Some(1), None, None, None, Some(9)),
                true,
                Some(1),
            ),
            (json!({"input": 0}), said(Some(0), None, None, None, None), false, None),
            (
                json!({"cache_read": 1, "cache_write": 2}),
                said(None, None, Some(1), Some(2), None),
                true,
                Some(3),
            ),
            (json!({"foo": 1}), None, false, None),
        ];
        for (raw, expected, nonzero, prompt) in cases {
            let usage = normalize_usage(&raw);
            assert_eq!(usage, expected, "{raw}");
            assert_eq!(usage.is_some_and(|usage| usage.is_nonzero()), nonzero, "{raw}");
            assert_eq!(usage.and_then(|usage| usage.prompt()), prompt, "{raw}");
        }
    }
}
