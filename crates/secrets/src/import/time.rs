//! Times as other programs write them: `2026-02-23T17:07:31.123Z`.

const DAY: i64 = 86_400_000;

/// Milliseconds since the epoch; `None` for anything but a UTC time of this form.
pub(super) fn parse(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(whole, ':')?;
    let in_range = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second)
        && (0..=9999).contains(&year);
    if !in_range || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let seconds = (hour * 60 + minute) * 60 + second;
    Some(days_since_epoch(year, month, day) * DAY + seconds * 1000 + millis)
}

fn numbers(text: &str, mark: char) -> Option<[i64; 3]> {
    let parts: Option<Vec<i64>> = text
        .split(mark)
        .map(|part| part.bytes().all(|digit| digit.is_ascii_digit()).then(|| part.parse().ok())?)
        .collect();
    parts?.try_into().ok()
}

/// Days of the proleptic Gregorian calendar. Years begin in March here, so that the leap day is the last one.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_runtime::iso_timestamp;

    use super::*;

    #[test]
    fn only_a_time_is_a_time() {
        assert_eq!(parse("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse("2026-02-23T17:07:31.12Z"), Some(1_771_866_451_120));
        for text in [
            "",
            "Z",
            "2026-02-23",
            "2026-13-01T00:00:00Z",
            "2026-01-01T00:00:00+01:00",
            "a-b-cTd:e:fZ",
            "2026-01-01T00:00:00.é0Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_time_is_read_as_it_was_written(ms in 0..253_402_300_799_999_i64) {
            prop_assert_eq!(parse(&iso_timestamp(ms)), Some(ms));
        }

        #[test]
        fn any_text_passes_without_a_panic(text in any::<String>()) {
            let _ = parse(&text);
        }
    }
}
