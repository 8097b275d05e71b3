//! The ticks of a schedule: cron's notation by `croner`, time zones by `jiff`, both compiled in.
//!
//! Where a zone's clock is changed, two readings of `30 2 * * *` are possible, and cron's own is kept:
//! - An hour that is named (`2`, `2-4`, `2,14`) is read on the wall. Each minute of a wall clock happens once: of an hour
//!   that comes twice, the first counts, and a minute that is left out is made up for at the first one after the gap.
//! - `*` and `*/n` in the hours are read as time that passes: `*/10 * * * *` has six ticks in every hour that passes.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use crate::decide::truncate::escaped;

/// Minutes of the wall clock that are looked at for one tick: those of a day that came twice, and of the next.
const MOST_STEPS: usize = 2 * 24 * 60;
/// Bytes of an expression in a message.
const SHOWN: usize = 64;
const SECOND: SignedDuration = SignedDuration::from_secs(1);

#[derive(Debug)]
pub struct Calendar {
    expressions: Vec<Expression>,
    zone: TimeZone,
}

#[derive(Debug)]
struct Expression {
    cron: Cron,
    /// Its hours are named: it is read on the wall.
    on_the_wall: bool,
}

impl Calendar {
    /// The error says what is wrong with which field, and what would be right.
    pub fn new(schedules: &[String], time_zone: Option<&str>) -> Result<Self, String> {
        let zone = time_zone.map_or(Ok(TimeZone::UTC), |name| {
            TimeZoneDatabase::bundled().get(name).map_err(|_| {
                let name = escaped(name, SHOWN);
                format!(
                    "spec.timeZone: the IANA database has no {name:?}; Europe/Berlin would be one."
                )
            })
        })?;
        let expressions = schedules.iter().map(|text| Expression::new(text));
        let expressions = expressions.collect::<Result<_, _>>()?;
        Ok(Self { expressions, zone })
    }

    /// The first tick after a time.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let each = self.expressions.iter();
        each.filter_map(|expression| expression.next(after, &self.zone))
            .min()
    }

    /// The last tick after one time and until another.
    pub fn latest(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let due = |after| self.next(after).filter(|tick| *tick <= until);
        let mut latest = due(after)?;
        // The first second after which no tick is due lies in between; that of the latest tick is it.
        let (mut low, mut high) = (latest.as_second(), until.as_second());
        while low < high {
            let middle = low + (high - low) / 2;
            match due(Timestamp::from_second(middle).ok()?) {
                Some(tick) => {
                    latest = tick;
                    low = tick.as_second();
                }
                None => high = middle,
            }
        }
        Some(latest)
    }
}

impl Expression {
    fn new(text: &str) -> Result<Self, String> {
        let shown = escaped(text, SHOWN);
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .build();
        let wrong = |what: &dyn std::fmt::Display| {
            format!(
                "spec.schedules: {shown:?} is no schedule of five fields, as in \"17 2 * * *\": {what}"
            )
        };
        if text.contains('=') {
            return Err(wrong(&"the time zone belongs into spec.timeZone"));
        }
        let cron = parser.parse(text).map_err(|error| wrong(&error))?;
        let hours = text.split_whitespace().nth(1);
        let on_the_wall = match hours {
            Some(hours) => !hours.starts_with(['*', '?']),
            None => !text.trim().eq_ignore_ascii_case("@hourly"),
        };
        let expression = Self { cron, on_the_wall };
        match expression.next(Timestamp::UNIX_EPOCH, &TimeZone::UTC) {
            Some(_) => Ok(expression),
            None => Err(wrong(&"that time never comes")),
        }
    }

    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let after_in_zone = after.to_zoned(zone.clone());
        if !self.on_the_wall {
            let next = self.cron.find_next_occurrence(&after_in_zone, false);
            return Some(next.ok()?.timestamp());
        }
        // As if the wall clock were in UTC, where none is changed.
        let mut wall = after_in_zone.datetime().to_zoned(TimeZone::UTC).ok()?;
        for _ in 0..MOST_STEPS {
            wall = self.cron.find_next_occurrence(&wall, false).ok()?;
            let at = first_time(wall.datetime(), zone)?;
            if at > after {
                return Some(at);
            }
        }
        None
    }
}

/// The first time at which a clock on the wall shows this, or else the first after the gap that it falls into.
fn first_time(shown: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(shown);
    match ambiguous.offset() {
        AmbiguousOffset::Gap { before, .. } => {
            let after_gap = before.to_timestamp(shown).ok()?.checked_add(SECOND).ok()?;
            Some(zone.preceding(after_gap).next()?.timestamp())
        }
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => {
            ambiguous.earlier().ok()
        }
    }
}

#[cfg(test)]
mod tests;
