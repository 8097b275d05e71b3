//! The real control plane (etcd and kube-apiserver, on request kube-controller-manager and a node) that integration
//! tests, the demo and `cargo run --example cluster` run on.
//!
//! A suite includes it with `#[path = "../cluster/mod.rs"] mod cluster;` and asks for
//! [`ControlPlane::shared`], which boots once a process, in seconds. Where the programs come from, in
//! this order: `RUN_OPERATOR_TEST_KUBECONFIG` names a cluster to use as it is (plain `KUBECONFIG` is not
//! taken: tests must not run in production by accident); `KUBEBUILDER_ASSETS` names a directory that
//! holds them; else they are built once with Go, at the version in go.mod, and kept in
//! `${XDG_CACHE_HOME:-~/.cache}/run-operator/`.
//!
//! Every listener is on 127.0.0.1, any number of control planes run side by side, and all that belongs
//! to one ends with the process that started it, also when that one is killed.

#![allow(
    dead_code,
    unused_imports,
    reason = "each suite that includes this module uses its own part of it"
)]

mod access;
mod binaries;
mod boot;
mod cgroup;
mod control_plane;
mod error;
#[path = "../tools/go_tool.rs"]
mod go_tool;
mod node;
mod node_support;
mod process;
mod scratch;

pub(crate) use binaries::{Binaries, Tool, kubernetes_version};
pub(crate) use boot::free_port;
pub(crate) use control_plane::{ControlPlane, Options};
pub(crate) use error::Error;
pub(crate) use go_tool::go_tool;
pub(crate) use node::{NODE, PAUSE_IMAGE};
pub(crate) use node_support::Place;
pub(crate) use process::{Output, Process, run};
pub(crate) use scratch::Scratch;
