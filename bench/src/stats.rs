//! Small statistics.

use std::time::Duration;

/// The middle value of the samples.
pub(crate) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The middle duration in microseconds.
pub(crate) fn p50_us(samples: &[Duration]) -> f64 {
    median(samples.iter().map(|sample| sample.as_secs_f64() * 1e6).collect())
}

/// Three digits are enough for a person.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
