//! How times are spread.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::columns::Column;
use super::usage::rounded;

/// The percentiles of the plots; the last is the longest.
pub(super) const PERCENTILES: [usize; 9] = [1, 10, 25, 50, 75, 90, 95, 99, 100];

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
        Some(rounded(time.as_secs_f64() * 1000.0))
    }

    /// The percentiles, in ms.
    pub(super) fn plotted(&self) -> Vec<f64> {
        PERCENTILES.iter().filter_map(|at| self.at(*at)).collect()
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
        write!(f, "{} times, {:?} ms", self.0.len(), self.plotted())
    }
}

/// The name of a percentile.
pub(super) fn name(hundredths: usize) -> String {
    match hundredths {
        100 => "longest".to_owned(),
        _ => format!("p{hundredths}"),
    }
}
