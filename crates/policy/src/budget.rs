//! Budgets: what a run may use of a day's or a month's tokens and money, and how a refusal is told.
//!
//! A run reserves the most that it may need before it begins and is settled by what it used. Which lines apply, and
//! the names of their periods, follow from the configuration and a clock; here only the arithmetic is decided.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_protocol::Cost;

/// What a run asks for, and the lines that have to have room for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reservation {
    pub tokens: u64,
    pub cost: Cost,
    pub lines: Vec<BudgetLine>,
}

/// One limit of one scope in one period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetLine {
    /// `tenant:<t>`, `workspace:<t>:<w>` or `agent:<t>:<w>:<a>`.
    pub scope: String,
    /// `day:2026-11-16` or `month:2026-11`.
    pub period: String,
    pub max_tokens: Option<u64>,
    pub max_cost: Option<Cost>,
    /// Refuses what does not fit; a soft line only says so.
    pub hard: bool,
}

/// What a scope's period has seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetUse {
    pub tokens_spent: u64,
    pub tokens_reserved: u64,
    pub cost_spent: Cost,
    pub cost_reserved: Cost,
}

/// What a line counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BudgetMeasure {
    Tokens,
    /// In billionths of a US dollar.
    Cost,
}

/// A limit that a run would go beyond, as things stood when it was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetExcess {
    pub scope: String,
    pub period: String,
    pub measure: BudgetMeasure,
    pub spent: u64,
    pub reserved: u64,
    pub asked: u64,
    pub limit: u64,
}

/// Why a run may not begin: the hard limits without room for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetRefusal {
    pub lines: Vec<BudgetExcess>,
}

/// What the lines say about a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetVerdict {
    /// It fits; these soft limits are exceeded.
    Room {
        over: Vec<BudgetExcess>,
    },
    Refused(BudgetRefusal),
}

impl Reservation {
    /// Judges every line by what its period has seen before this run. One hard line without room refuses.
    pub fn judge(&self, used: impl Fn(&BudgetLine) -> BudgetUse) -> BudgetVerdict {
        let (mut refused, mut over) = (Vec::new(), Vec::new());
        for line in &self.lines {
            let found = if line.hard { &mut refused } else { &mut over };
            found.extend(self.excess(line, used(line)));
        }
        if refused.is_empty() {
            BudgetVerdict::Room { over }
        } else {
            BudgetVerdict::Refused(BudgetRefusal { lines: refused })
        }
    }

    /// The limits of a line that it would go beyond.
    fn excess(&self, line: &BudgetLine, used: BudgetUse) -> impl Iterator<Item = BudgetExcess> {
        let exceeded = |measure, spent: u64, reserved: u64, asked: u64, limit: Option<u64>| {
            // What costs nothing fits everywhere.
            let goes_beyond =
                |limit: &u64| asked > 0 && spent.saturating_add(reserved).saturating_add(asked) > *limit;
            let limit = limit.filter(goes_beyond)?;
            let (scope, period) = (line.scope.clone(), line.period.clone());
            Some(BudgetExcess { scope, period, measure, spent, reserved, asked, limit })
        };
        let tokens = exceeded(
            BudgetMeasure::Tokens,
            used.tokens_spent,
            used.tokens_reserved,
            self.tokens,
            line.max_tokens,
        );
        let cost = exceeded(
            BudgetMeasure::Cost,
            used.cost_spent.0,
            used.cost_reserved.0,
            self.cost.0,
            line.max_cost.map(|cost| cost.0),
        );
        tokens.into_iter().chain(cost)
    }
}

impl fmt::Display for BudgetRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in self.lines.iter().enumerate() {
            if number > 0 {
                f.write_str(". ")?;
            }
            line.write_refusal(f)?;
        }
        Ok(())
    }
}

/// Told as a warning: the run goes on.
impl fmt::Display for BudgetExcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [spent, reserved, asked, limit] = self.amounts();
        write!(
            f,
            "over the budget of {} {}: {spent} spent, {reserved} reserved, this run needs up to {asked} of {limit}",
            self.who(),
            self.when().0
        )
    }
}

impl BudgetExcess {
    fn write_refusal(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [spent, reserved, asked, limit] = self.amounts();
        let (when, again) = self.when();
        write!(
            f,
            "the budget of {} {when} is used up: {spent} spent, {reserved} reserved, this run needs up to {asked} of \
             {limit}; it is free again {again}, or raise the limit in budgets",
            self.who()
        )
    }

    fn amounts(&self) -> [String; 4] {
        let shown = |amount: u64| match self.measure {
            BudgetMeasure::Tokens => format!("{amount} tokens"),
            BudgetMeasure::Cost => dollars(Cost(amount)),
        };
        [self.spent, self.reserved, self.asked, self.limit].map(shown)
    }

    /// The scope in words: its kind and its own name.
    fn who(&self) -> String {
        let kind = self.scope.split(':').next().unwrap_or_default();
        let name = self.scope.rsplit(':').next().unwrap_or_default();
        format!("{kind} {name}")
    }

    /// The period in words, and when the next one begins.
    fn when(&self) -> (&'static str, &'static str) {
        if self.period.starts_with("month:") {
            ("for this month", "next month")
        } else {
            ("for today", "tomorrow")
        }
    }
}

/// Two digits for amounts that people count in, more for those that only a model costs.
fn dollars(cost: Cost) -> String {
    const CENT: u64 = 10_000_000;
    /// A ten-thousandth of a dollar: less is shown as this.
    const SMALLEST: u64 = 100_000;
    let Cost(billionths) = cost;
    if billionths == 0 || billionths >= 100 * CENT || billionths % CENT == 0 {
        let cents = billionths.saturating_add(CENT / 2) / CENT;
        return format!("${}.{:02}", cents / 100, cents % 100);
    }
    let fine = billionths.saturating_add(SMALLEST / 2) / SMALLEST;
    format!("${}.{:04}", fine / 10_000, fine.max(1) % 10_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(max_tokens: Option<u64>, max_cost: Option<u64>, hard: bool) -> BudgetLine {
        BudgetLine {
            scope: "agent:local:default:main".to_owned(),
            period: "day:2026-11-16".to_owned(),
            max_tokens,
            max_cost: max_cost.map(Cost),
            hard,
        }
    }

    fn used(spent: u64, reserved: u64) -> BudgetUse {
        BudgetUse {
            tokens_spent: spent,
            tokens_reserved: reserved,
            cost_spent: Cost(spent),
            cost_reserved: Cost(reserved),
        }
    }

    fn asks(tokens: u64, cost: u64, lines: Vec<BudgetLine>) -> Reservation {
        Reservation { tokens, cost: Cost(cost), lines }
    }

    #[test]
    fn what_fits_exactly_passes_and_one_more_is_refused() {
        let reservation = asks(10, 0, vec![line(Some(100), None, true)]);
        assert_eq!(reservation.judge(|_| used(60, 30)), BudgetVerdict::Room { over: Vec::new() });
        let BudgetVerdict::Refused(refusal) = reservation.judge(|_| used(60, 31)) else { panic!("no room") };
        let [excess] = refusal.lines.as_slice() else { panic!("{refusal:?}") };
        assert_eq!((excess.spent, excess.reserved, excess.asked, excess.limit), (60, 31, 10, 100));
        assert_eq!(excess.measure, BudgetMeasure::Tokens);
    }

    #[test]
    fn a_soft_line_lets_pass_and_says_so() {
        let reservation = asks(10, 9, vec![line(Some(5), Some(5), false)]);
        let BudgetVerdict::Room { over } = reservation.judge(|_| used(0, 0)) else { panic!("it is soft") };
        let measures: Vec<_> = over.iter().map(|excess| excess.measure).collect();
        assert_eq!(measures, [BudgetMeasure::Tokens, BudgetMeasure::Cost]);
    }

    #[test]
    fn one_hard_line_refuses_whatever_room_the_others_have() {
        let roomy = BudgetLine { scope: "tenant:local".to_owned(), ..line(Some(1_000), None, true) };
        let reservation = asks(10, 0, vec![roomy, line(Some(5), None, true), line(Some(1), None, false)]);
        let BudgetVerdict::Refused(refusal) = reservation.judge(|_| used(0, 0)) else { panic!("no room") };
        assert_eq!(refusal.lines.len(), 1);
        assert_eq!(refusal.lines[0].scope, "agent:local:default:main");
    }

    #[test]
    fn a_refusal_says_who_when_how_much_and_what_to_do() {
        let reservation = asks(0, 500_000_000, vec![line(None, Some(5_000_000_000), true)]);
        let seen = used(4_900_000_000, 200_000_000);
        let BudgetVerdict::Refused(refusal) = reservation.judge(|_| seen) else { panic!("no room") };
        assert_eq!(
            refusal.to_string(),
            "the budget of agent main for today is used up: $4.90 spent, $0.20 reserved, this run needs up to $0.50 of \
             $5.00; it is free again tomorrow, or raise the limit in budgets"
        );
    }

    #[test]
    fn a_warning_names_the_month_and_counts_tokens() {
        let monthly = BudgetLine {
            scope: "tenant:acme".to_owned(),
            period: "month:2026-11".to_owned(),
            ..line(Some(5), None, false)
        };
        let verdict = asks(3, 0, vec![monthly]).judge(|_| used(4, 1));
        let BudgetVerdict::Room { over } = verdict else { panic!("it is soft") };
        assert_eq!(
            over[0].to_string(),
            "over the budget of tenant acme for this month: 4 tokens spent, 1 tokens reserved, this run needs up to \
             3 tokens of 5 tokens"
        );
    }

    #[test]
    fn small_amounts_are_not_shown_as_nothing() {
        for (billionths, shown) in [
            (0, "$0.00"),
            (1, "$0.0001"),
            (1_250_000, "$0.0013"),
            (10_000_000, "$0.01"),
            (12_300_000, "$0.0123"),
            (999_999_999, "$1.0000"),
            (1_234_567_890, "$1.23"),
            (5_000_000_000_000, "$5000.00"),
        ] {
            assert_eq!(dollars(Cost(billionths)), shown);
        }
    }

    proptest! {
        #[test]
        fn a_reservation_that_passes_hard_lines_never_goes_beyond_them(
            spent in 0_u64..200, reserved in 0_u64..200, asked in 0_u64..200, limit in 0_u64..400,
        ) {
            let verdict = asks(asked, asked, vec![line(Some(limit), Some(limit), true)])
                .judge(|_| used(spent, reserved));
            let passes = matches!(verdict, BudgetVerdict::Room { .. });
            // What asks for nothing goes beyond nothing.
            prop_assert_eq!(passes, asked == 0 || spent + reserved + asked <= limit);
        }
    }
}
