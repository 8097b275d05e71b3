//! The real control plane (etcd and kube-apiserver, on request kube-controller-manager and a node) that the
//! suites, the demo and `cargo xtask cluster` run on, and the reference service as a process.
//!
//! A suite asks for [`ControlPlane::shared`], which boots once a process, in seconds. Where the programs come from, in
//! this order: `RUN_OPERATOR_TEST_KUBECONFIG` names a cluster to use as it is (plain `KUBECONFIG` is not
//! taken: tests must not run in production by accident); `KUBEBUILDER_ASSETS` names a directory that
//! holds them; else etcd, kube-apiserver and kubectl are downloaded, where setup-envtest can; else they are built once
//! with Go, at the version in go.mod of `kubernetes-1.37`, or of the folder that `KUBERNETES=1.36` names. Both are kept in
//! `${XDG_CACHE_HOME:-~/.cache}/run-operator/`.
//!
//! Every listener is on 127.0.0.1, any number of control planes run side by side, and all that belongs
//! to one ends with the process that started it, also when that one is killed.

mod access;
mod binaries;
mod boot;
mod cgroup;
mod control_plane;
mod error;
mod node;
mod node_support;
mod prebuilt;
mod process;
mod release;
mod scratch;
mod service;
mod skipped;

pub use binaries::{Binaries, Tool};
pub use boot::free_port;
pub use control_plane::{ControlPlane, Options};
pub use error::Error;
pub use node::{NODE, PAUSE_IMAGE};
pub use node_support::Place;
pub use process::{Output, Process, run};
pub use release::Release;
pub use scratch::Scratch;
pub use service::{Recipe, ReferenceService, ServiceError, Tls};
pub use skipped::skipped;
