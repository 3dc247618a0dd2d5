//! Parts of dates.

use crate::plan::DatePart;
use crate::range::Range;

/// Days of 400 years, after which the calendar repeats itself.
const CYCLE_DAYS: i64 = 146_097;
/// From 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

/// The part of the date that is so many days after 1970-01-01. Days beyond 32 bits are no dates, and give any number.
pub(crate) fn part(part: DatePart, days: i64) -> i64 {
    let since = days.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) + EPOCH_DAYS;
    let (cycle, day) = (since.div_euclid(CYCLE_DAYS), since.rem_euclid(CYCLE_DAYS));
    // Years begin in March, so that the leap day is their last.
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let calendar_month = if month < 10 { month + 3 } else { month - 9 };
    match part {
        DatePart::Year => cycle * 400 + year + i64::from(month >= 10),
        DatePart::Quarter => (calendar_month + 2) / 3,
        DatePart::Month => calendar_month,
        DatePart::Day => day - (153 * month + 2) / 5 + 1,
    }
}

/// Between which numbers the parts of dates in this range lie.
pub(crate) fn range(of: DatePart, (least, greatest): Range) -> Range {
    let year = |days: i128| {
        let days = days.clamp(i128::from(i32::MIN), i128::from(i32::MAX));
        i128::from(part(DatePart::Year, days as i64))
    };
    match of {
        DatePart::Year => (year(least), year(greatest)),
        DatePart::Quarter => (1, 4),
        DatePart::Month => (1, 12),
        DatePart::Day => (1, 31),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(days: i64) -> [i64; 4] {
        [DatePart::Year, DatePart::Quarter, DatePart::Month, DatePart::Day].map(|of| part(of, days))
    }

    #[test]
    fn known_dates() {
        assert_eq!(date(0), [1970, 1, 1, 1]);
        assert_eq!(date(-1), [1969, 4, 12, 31]);
        assert_eq!(date(11_016), [2000, 1, 2, 29]);
        assert_eq!(date(11_017), [2000, 1, 3, 1]);
        assert_eq!(date(-25_508), [1900, 1, 3, 1]);
        assert_eq!(date(-25_509), [1900, 1, 2, 28]);
        assert_eq!(date(-719_528), [0, 1, 1, 1]);
        assert_eq!(date(-719_529), [-1, 4, 12, 31]);
        assert_eq!(date(i64::MAX), date(i64::from(i32::MAX)));
    }

    #[test]
    fn each_day_follows_the_one_before() {
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let mut before = date(-1_000_001);
        for days in -1_000_000..1_000_000 {
            let [year, _, month, day] = before;
            let length = match month {
                2 => 28 + i64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            let next = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, day) if day == length => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
            before = date(days);
            assert_eq!(before, [next.0, (next.1 + 2) / 3, next.1, next.2], "{days} days");
        }
    }
}
