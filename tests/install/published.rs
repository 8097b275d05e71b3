//! The release as it is installed from a registry: the chart by `oci://`, and the image by its digest, which containerd
//! pulls.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use run_operator::api::Phase;

use crate::image::on_a_node;
use crate::installation::Installation;
use test_cluster::run;
use test_support::registry::Registry;
use test_support::{cargo, tools::go_tool};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn output(mut command: Command, args: &[&str]) -> String {
    command.args(args);
    run(command, "").unwrap_or_else(|error| panic!("{error}"))
}

/// Publishes image and chart as a release does, and returns the image's reference.
fn publish(registry: &Registry, layout: &Path, scratch: &Path) -> String {
    let image = || Command::new(go_tool("image").unwrap());
    let (layout, address) = (layout.to_str().unwrap(), &registry.address);
    let index = scratch.join("index").display().to_string();
    output(image(), &["index", "--out", &index, layout]);
    let tag = format!("{address}/run-operator:{VERSION}");
    let digest = output(image(), &["push", &index, &tag]);
    let reference = format!("{address}/run-operator@{}", digest.trim());

    let mut chart = cargo();
    chart.args(["xtask", "release", "chart", "--epoch=1700000000"]);
    chart.args(["--version", VERSION, "--registry", address]);
    let folder = scratch.to_str().unwrap();
    output(chart, &["--image", &reference, "--output", folder]);
    let archive = scratch.join(format!("run-operator-{VERSION}.tgz"));
    let charts = format!("oci://{address}/charts");
    let mut push = Command::new(go_tool("helm").unwrap());
    push.env("HELM_CONFIG_HOME", scratch);
    let archive = archive.to_str().unwrap();
    output(push, &["push", archive, &charts, "--plain-http"]);
    reference
}

/// Proves: I-release
#[tokio::test]
#[ignore = "needs a registry: make test-release"]
async fn chart_and_image_are_installed_from_a_registry() {
    let Some(mut installation) = Installation::prepare().await else {
        return;
    };
    // `make image` leaves it beside the file that a node imports.
    let layout = on_a_node().unwrap().with_extension("");
    assert!(layout.is_dir(), "no layout beside the image (make image)");
    let registry = Registry::start().unwrap();
    let folder = installation.scratch.path().join("published");
    std::fs::create_dir_all(&folder).unwrap();
    let reference = publish(&registry, &layout, &folder);

    let chart = format!("oci://{}/charts/run-operator", registry.address);
    installation.version.chart = chart.into();
    // What the node has by another name is not enough.
    let always = ["--set", "image.pullPolicy=Always"];
    let from_there = ["--version", VERSION, "--plain-http"];
    let values = [&from_there[..], &always].concat();
    installation.change("install", &values).await;
    installation.make_workspace().await;
    let (_, container) = installation.ready_pod().await;
    assert_eq!(container.image_id, reference);
    let brief = json!({"runTimeMs": 200});
    installation.simulate("train", brief).await;
    installation.phase("train", Phase::Succeeded).await;
}
