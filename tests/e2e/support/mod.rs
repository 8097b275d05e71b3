//! Support of the tests: a world of its own for each, and functions for its steps and waits.

#![allow(
    dead_code,
    unused_imports,
    reason = "each suite that includes this module uses its own part of it"
)]

mod assertions;
mod exposition;
mod history;
mod operator;
mod permissions;
mod planes;
mod proxy;
mod service;
mod ticks;
mod wait;
mod wall_clock;
mod world;

pub(crate) use assertions::{condition_of, contract_file, impatient_contract};
pub(crate) use exposition::{Series, series};
pub(crate) use history::{History, row};
pub(crate) use operator::{Operator, Recipe};
pub(crate) use permissions::{Audit, DEPLOYED, ELECTED, SECRET};
pub(crate) use planes::{
    Plane, audited_control_plane, own_control_plane, owner_checking_control_plane,
};
pub(crate) use proxy::{Asked, Fault, Hook, Proxy, Wire};
pub(crate) use service::{Service, TOKEN, active_at_creates};
pub(crate) use test_support::says;
pub(crate) use ticks::Ticks;
pub(crate) use wait::{
    STREAMS_MOVE, eventually, eventually_after, gone, holds_for_a_while, output_of, run_until,
};
pub(crate) use wall_clock::WallClock;
pub(crate) use world::{Rights, Setup, World, held, intent_of, phase_of};
