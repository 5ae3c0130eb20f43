//! The floor below every promise to keep something: an append and its `fdatasync`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use crate::stats::median;
use crate::store::Fallible;

const SAMPLES: usize = 100;
const PAGE: usize = 4096;

/// The middle time of one append with its sync, in milliseconds.
pub(crate) fn sync_ms(folder: &Path) -> Fallible<f64> {
    let mut file = OpenOptions::new().create(true).append(true).open(folder.join("floor"))?;
    let page = [7_u8; PAGE];
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let start = Instant::now();
        file.write_all(&page)?;
        file.sync_data()?;
        samples.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(samples))
}
