//! Attacks: the token in every answer, addresses and redirects that lead elsewhere, a status and an intent
//! that someone else wrote, and streams without end.

mod canary;
mod faults;
mod forged;
mod search;

pub(crate) use search::hits;
