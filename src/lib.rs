//! run-operator turns a `Run` object into at most one run at the Run Orchestration Service.
//!
//! Five layers, each knowing only those above it; a test enforces it:
//!
//! 1. [`api`]: the custom resources and the contract file, plain data.
//! 2. [`decide`]: all policy, a pure function from what is observed to what is done next.
//! 3. [`service`]: the HTTP client of the service. Knows nothing of Kubernetes.
//! 4. `controller`: observe, decide, act, write the status. The only place where both sides meet.
//! 5. the binary: flags, health, metrics, logs.
//!
//! Outside of the layers are [`clock`], which layers 3 to 5 read, [`contract_file`], [`util`], [`api_access`], by which
//! the programs reach the API server, and [`checks`], which `helm test` and the tool on the desk (`kubectl-runop`) ask.
//! Without the feature `controller` the fourth is left out.

pub mod api;
pub mod api_access;
pub mod checks;
pub mod clock;
pub mod contract_file;
#[cfg(feature = "controller")]
pub mod controller;
pub mod decide;
pub mod service;
pub mod util;
