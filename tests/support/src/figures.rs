//! Figures that a proof has counted, printed.

use std::fmt::Display;

/// The figures of one proof, such as `model`.
pub struct Figures(String);

impl Figures {
    /// No figures yet.
    pub fn new(proof: impl Into<String>) -> Self {
        Self(proof.into())
    }

    /// One figure.
    #[must_use]
    pub fn row(self, what: impl Display, value: impl Display) -> Self {
        eprintln!("{}: {what}: {value}", self.0);
        self
    }

    /// A table of figures.
    #[must_use]
    pub fn table(self, title: impl Display, head: &[&str], rows: Vec<Vec<String>>) -> Self {
        eprintln!("{}: {title}\n  {}", self.0, head.join(" | "));
        for row in rows {
            eprintln!("  {}", row.join(" | "));
        }
        self
    }

    /// Ends them.
    pub fn record(self) {}
}
