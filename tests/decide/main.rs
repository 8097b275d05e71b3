//! Policy, branch by branch, and whole lives of a Run in a simulated world. No I/O, no clock.

mod bodies;
mod classes;
mod conditions;
mod contract;
mod deletion;
mod doubt;
mod feed;
mod intents;
mod lives;
mod mirror;
mod properties;
mod support;
mod world;
