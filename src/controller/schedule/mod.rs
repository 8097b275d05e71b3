//! RunSchedules: each is decided by `decide::schedule`, and its Runs are created, cancelled and deleted here.

pub(crate) mod reconcile;
pub(crate) mod writes;
