//! Budgets in the store: what an accepted run reserved, and how each way to end settles it exactly once.
//!
//! Pure, so that both backends count alike: they read a run's reservation, ask here what changes, and write the
//! changes in the order of the lines. That order is the same for everybody, so nobody waits in a circle.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_policy::{BudgetExcess, BudgetRefusal, BudgetUse, BudgetVerdict, Reservation};
use tidegate_protocol::{Cost, Usage};

/// A period of a scope. Sorts as the rows are locked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BudgetKey {
    pub scope: String,
    pub period: String,
}

/// What a period of a scope has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetRow {
    pub key: BudgetKey,
    pub used: BudgetUse,
    /// Runs that it had no room for.
    pub rejected: u64,
}

/// Which rows to read; an empty list means all.
#[derive(Debug, Clone, Default)]
pub struct BudgetFilter {
    pub scopes: Vec<String>,
    pub periods: Vec<String>,
    pub limit: u32,
}

/// What a run holds, as it is stored with the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reserved {
    pub tokens: u64,
    pub cost: Cost,
    /// Sorted, each once.
    pub lines: Vec<BudgetKey>,
}

/// Amounts beyond this count as this: a million dollars, and tokens that nobody has. Sums of it fit where they are
/// stored.
const MOST: u64 = 1_000_000_000_000_000;

impl Reserved {
    pub fn of(reservation: &Reservation) -> Self {
        let mut lines: Vec<BudgetKey> = reservation
            .lines
            .iter()
            .map(|line| BudgetKey { scope: line.scope.clone(), period: line.period.clone() })
            .collect();
        lines.sort();
        lines.dedup();
        Self { tokens: reservation.tokens.min(MOST), cost: Cost(reservation.cost.0.min(MOST)), lines }
    }

    /// What stays reserved when some of it was used.
    fn less(&self, usage: &Usage) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(usage.total()),
            cost: Cost(self.cost.0.saturating_sub(usage.cost.0)),
            lines: self.lines.clone(),
        }
    }
}

/// What ACCEPT decided about a run's budgets, as it is stored with the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Booking {
    pub reserved: Option<Reserved>,
    pub refusal: Option<BudgetRefusal>,
    pub over_budget: Vec<BudgetExcess>,
}

impl Booking {
    /// Decides by what the periods had seen before; one that is not listed has seen nothing.
    pub fn decide(reservation: &Reservation, before: &BTreeMap<BudgetKey, BudgetUse>) -> Self {
        let used = |line: &tidegate_policy::BudgetLine| {
            let key = BudgetKey { scope: line.scope.clone(), period: line.period.clone() };
            before.get(&key).copied().unwrap_or_default()
        };
        match reservation.judge(used) {
            BudgetVerdict::Room { over } => {
                Self { reserved: Some(Reserved::of(reservation)), refusal: None, over_budget: over }
            }
            BudgetVerdict::Refused(refusal) => Self { refusal: Some(refusal), ..Self::default() },
        }
    }
}

/// The first of these reservations that fits a run that holds something already, and its place; `None` when none does,
/// with what the last one met. What the run holds is free for it.
pub fn first_that_fits(
    held: Option<&Reserved>,
    wanted: &[Reservation],
    mut before: BTreeMap<BudgetKey, BudgetUse>,
) -> (Option<(usize, Reserved)>, Option<BudgetRefusal>) {
    for line in held.into_iter().flat_map(|held| &held.lines) {
        let (Some(used), Some(held)) = (before.get_mut(line), held) else { continue };
        used.tokens_reserved = used.tokens_reserved.saturating_sub(held.tokens);
        used.cost_reserved = Cost(used.cost_reserved.0.saturating_sub(held.cost.0));
    }
    let mut refusal = None;
    for (at, reservation) in wanted.iter().enumerate() {
        let booking = Booking::decide(reservation, &before);
        match booking.reserved {
            Some(reserved) => return (Some((at, reserved)), None),
            None => refusal = booking.refusal,
        }
    }
    (None, refusal)
}

/// How a run's reservation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// By FINISH: what its calls used was spent.
    Used,
    /// Given back whole: it never began.
    Returned,
    /// Spent whole: it was ended from outside, and what it used is not known yet.
    AsReserved,
    /// Spent whole at first, then replaced by what its calls used.
    Metered,
}

impl Settled {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Returned => "returned",
            Self::AsReserved => "as_reserved",
            Self::Metered => "metered",
        }
    }

    /// How a run that ends from outside is settled.
    pub fn from_outside(begun: bool) -> Self {
        if begun { Self::AsReserved } else { Self::Returned }
    }
}

/// Where a run stands when calls of it are metered outside its FINISH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeteredRun {
    pub reserved: Reserved,
    /// Whether it has ended.
    pub ended: bool,
    /// The stored [`Settled`]; absent while it is open, and after an end that an older release wrote.
    pub settled: Option<String>,
}

/// What metering leaves with the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterMeter {
    /// The calls were added; the run's own record stays.
    Unchanged,
    /// It is still open and holds this much less.
    Holds(Reserved),
    Metered,
}

/// How one row changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetChange {
    pub tokens_spent: i64,
    pub tokens_reserved: i64,
    pub cost_spent: i64,
    pub cost_reserved: i64,
    pub rejected: i64,
}

/// What one commit changes, each row once and in the order in which rows are locked.
#[derive(Debug, Default)]
pub struct BudgetChanges(BTreeMap<BudgetKey, BudgetChange>);

impl BudgetChanges {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&BudgetKey, &BudgetChange)> {
        self.0.iter()
    }

    /// FINISH: what was reserved is free, what was used is spent.
    pub fn finish(&mut self, reserved: &Reserved, usage: &Usage) {
        self.release(reserved);
        self.spend(&reserved.lines, usage.total(), usage.cost);
    }

    /// The run ended from outside.
    pub fn end(&mut self, reserved: &Reserved, settled: Settled) {
        self.release(reserved);
        if settled == Settled::AsReserved {
            self.spend(&reserved.lines, reserved.tokens, reserved.cost);
        }
    }

    /// Calls of a run that came outside its FINISH: the truth takes the place of what was assumed.
    pub fn meter(&mut self, run: &MeteredRun, usage: &Usage) -> AfterMeter {
        let reserved = &run.reserved;
        self.spend(&reserved.lines, usage.total(), usage.cost);
        match run.settled.as_deref() {
            None if run.ended => {
                self.release(reserved);
                AfterMeter::Metered
            }
            None => {
                let left = reserved.less(usage);
                self.release(reserved);
                self.reserve(&left);
                AfterMeter::Holds(left)
            }
            Some(settled) if settled == Settled::AsReserved.as_str() => {
                self.change(&reserved.lines, |change| {
                    change.tokens_spent -= countable(reserved.tokens);
                    change.cost_spent -= countable(reserved.cost.0);
                });
                AfterMeter::Metered
            }
            Some(_) => AfterMeter::Unchanged,
        }
    }

    pub fn reserve(&mut self, reserved: &Reserved) {
        self.change(&reserved.lines, |change| {
            change.tokens_reserved += countable(reserved.tokens);
            change.cost_reserved += countable(reserved.cost.0);
        });
    }

    /// Counts a refused run with the lines that had no room for it, each once.
    pub fn reject(&mut self, refusal: &BudgetRefusal) {
        for excess in &refusal.lines {
            let key = BudgetKey { scope: excess.scope.clone(), period: excess.period.clone() };
            self.0.entry(key).or_default().rejected = 1;
        }
    }

    pub fn release(&mut self, reserved: &Reserved) {
        self.change(&reserved.lines, |change| {
            change.tokens_reserved -= countable(reserved.tokens);
            change.cost_reserved -= countable(reserved.cost.0);
        });
    }

    fn spend(&mut self, lines: &[BudgetKey], tokens: u64, cost: Cost) {
        self.change(lines, |change| {
            change.tokens_spent += countable(tokens);
            change.cost_spent += countable(cost.0);
        });
    }

    fn change(&mut self, lines: &[BudgetKey], with: impl Fn(&mut BudgetChange)) {
        for line in lines {
            with(self.0.entry(line.clone()).or_default());
        }
    }
}

/// An amount as it is stored and summed.
pub fn countable(amount: u64) -> i64 {
    i64::try_from(amount.min(MOST)).unwrap_or(i64::MAX)
}

/// The day and the month before which a budget's period is older than 400 days, at this time.
pub fn forgotten_periods(now: i64) -> (String, String) {
    const DAY_MS: i64 = 86_400_000;
    const KEPT_DAYS: i64 = 400;
    let (year, month, day) = civil(now.div_euclid(DAY_MS) - KEPT_DAYS);
    (format!("day:{year:04}-{month:02}-{day:02}"), format!("month:{year:04}-{month:02}"))
}

/// The date of a day counted from 1970-01-01, in the calendar of today: years begin in March here, so that the leap
/// day is the last one.
fn civil(days: i64) -> (i64, i64, i64) {
    const ERA: i64 = 146_097;
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(ERA), shifted.rem_euclid(ERA));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use tidegate_policy::BudgetLine;

    use super::*;

    fn reserved() -> Reserved {
        let line = |scope: &str| BudgetLine {
            scope: scope.to_owned(),
            period: "day:2026-11-16".to_owned(),
            max_tokens: Some(1),
            max_cost: None,
            hard: true,
        };
        let lines = vec![line("tenant:t"), line("agent:t:w:a"), line("tenant:t")];
        Reserved::of(&Reservation { tokens: 10, cost: Cost(5), lines })
    }

    fn usage(tokens: u64, cost: u64) -> Usage {
        Usage { input: tokens, cost: Cost(cost), ..Usage::default() }
    }

    /// The change of the first row: tokens spent and reserved, cost spent and reserved.
    fn first(changes: &BudgetChanges) -> (i64, i64, i64, i64) {
        let (_, change) = changes.iter().next().unwrap();
        (change.tokens_spent, change.tokens_reserved, change.cost_spent, change.cost_reserved)
    }

    fn metered(settled: Option<Settled>, ended: bool, usage: &Usage) -> (AfterMeter, BudgetChanges) {
        let settled = settled.map(|settled| settled.as_str().to_owned());
        let mut changes = BudgetChanges::default();
        let after = changes.meter(&MeteredRun { reserved: reserved(), ended, settled }, usage);
        (after, changes)
    }

    #[test]
    fn two_limits_of_one_period_reserve_once_and_rows_come_in_order() {
        let reserved = reserved();
        let scopes: Vec<_> = reserved.lines.iter().map(|line| line.scope.as_str()).collect();
        assert_eq!(scopes, ["agent:t:w:a", "tenant:t"]);
        let mut changes = BudgetChanges::default();
        changes.reserve(&reserved);
        assert_eq!(first(&changes), (0, 10, 0, 5));
        assert_eq!(changes.iter().count(), 2);
    }

    #[test]
    fn each_end_frees_the_reservation_and_spends_what_is_known() {
        for (settled, expected) in
            [(Settled::AsReserved, (10, -10, 5, -5)), (Settled::Returned, (0, -10, 0, -5))]
        {
            let mut changes = BudgetChanges::default();
            changes.end(&reserved(), settled);
            assert_eq!(first(&changes), expected);
        }
        let mut changes = BudgetChanges::default();
        changes.finish(&reserved(), &usage(3, 2));
        assert_eq!(first(&changes), (3, -10, 2, -5));
    }

    #[test]
    fn the_truth_replaces_what_was_assumed() {
        let (after, changes) = metered(Some(Settled::AsReserved), true, &usage(3, 2));
        assert_eq!((after, first(&changes)), (AfterMeter::Metered, (-7, 0, -3, 0)));
        for settled in [Settled::Metered, Settled::Used, Settled::Returned] {
            let (after, changes) = metered(Some(settled), true, &usage(3, 2));
            assert_eq!((after, first(&changes)), (AfterMeter::Unchanged, (3, 0, 2, 0)));
        }
    }

    #[test]
    fn what_an_open_run_uses_comes_out_of_its_reservation() {
        let (after, changes) = metered(None, false, &usage(3, 9));
        let left = Reserved { tokens: 7, cost: Cost(0), ..reserved() };
        assert_eq!((after, first(&changes)), (AfterMeter::Holds(left), (3, -3, 9, -5)));
        // An older release ended it and knew of no reservation.
        let (after, changes) = metered(None, true, &usage(3, 2));
        assert_eq!((after, first(&changes)), (AfterMeter::Metered, (3, -10, 2, -5)));
    }

    #[test]
    fn absurd_amounts_stay_countable() {
        let reservation = Reservation { tokens: u64::MAX, cost: Cost(u64::MAX), lines: Vec::new() };
        let reserved = Reserved { lines: reserved().lines, ..Reserved::of(&reservation) };
        let mut changes = BudgetChanges::default();
        for _ in 0..1_000 {
            changes.reserve(&reserved);
        }
        let most = i64::try_from(MOST).unwrap() * 1_000;
        assert_eq!(first(&changes), (0, most, 0, most));
    }

    #[test]
    fn periods_are_kept_for_four_hundred_days() {
        const DAY: i64 = 86_400_000;
        let expected = |day: &str, month: &str| (format!("day:{day}"), format!("month:{month}"));
        assert_eq!(forgotten_periods(400 * DAY), expected("1970-01-01", "1970-01"));
        // 2026-11-16, 2024-02-29 and the day after it, each 400 days later.
        assert_eq!(forgotten_periods((20_773 + 400) * DAY), expected("2026-11-16", "2026-11"));
        assert_eq!(forgotten_periods((19_782 + 400) * DAY + 5), expected("2024-02-29", "2024-02"));
        assert_eq!(forgotten_periods((19_783 + 400) * DAY), expected("2024-03-01", "2024-03"));
        assert_eq!(forgotten_periods(0), expected("1968-11-27", "1968-11"));
    }
}
