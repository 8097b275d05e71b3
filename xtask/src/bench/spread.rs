//! How times are spread.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::columns::Column;

/// Times, in their order.
pub(super) struct Spread(Vec<Duration>);

impl Spread {
    pub(super) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The percentile, in ms.
    fn at(&self, hundredths: usize) -> Option<f64> {
        let place = self.0.len() * hundredths / 100;
        let time = self.0.get(place).or(self.0.last())?;
        Some((time.as_secs_f64() * 10_000.0).round() / 10.0)
    }

    /// Adds what is shown of them to a case.
    pub(super) fn cells(&self, column: Column, what: &str) -> Column {
        let column = column.cell(format!("{what}, number"), self.0.len());
        [50, 99, 100]
            .into_iter()
            .fold(column, |column, at| match self.at(at) {
                Some(ms) => column.cell(format!("{what}, {}", name(at)), ms),
                None => column,
            })
    }
}

impl Display for Spread {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} times, p50 {:?} ms, p99 {:?} ms",
            self.0.len(),
            self.at(50),
            self.at(99)
        )
    }
}

/// The name of a percentile.
fn name(hundredths: usize) -> String {
    match hundredths {
        100 => "longest".to_owned(),
        _ => format!("p{hundredths}"),
    }
}
