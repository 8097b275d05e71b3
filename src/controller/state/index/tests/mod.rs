#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::cell::Cell;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::{Run, names};
use crate::controller::{
    apiserver::Maybe,
    state::fixtures::{intent, keyed, merged, phase, run},
};

use super::*;

mod keys;

thread_local! {
    /// Number of Runs that a lookup by key has read.
    pub(crate) static LOOKS: Cell<usize> = const { Cell::new(0) };
}

pub(crate) fn record(name: &str, fields: Value) -> Record {
    Record::of(&run(name, fields).into())
}

fn filled(records: impl IntoIterator<Item = Record>) -> RunIndex {
    let index = RunIndex::default();
    for record in records {
        assert_eq!(index.put(record), None);
    }
    index
}
