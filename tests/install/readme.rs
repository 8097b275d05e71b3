//! The README's first install, by its own commands. Only the image is on the node already, and the network is the node's.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use kube::api::Api;
use run_operator::api::{Phase, Run};
use test_support::{root, tools::go_tool};

use crate::installation::{Installation, in_the_background};
use crate::service::TOKEN;
use crate::wait;

const PAGE: &str = include_str!("../../README.md");
const URL: &str = "https://runs.example.com/api/v1";

/// The first block of a language below a heading.
fn block(heading: &str, language: &str) -> &'static str {
    let below = PAGE.split_once(heading).unwrap().1;
    let block = below.split_once(&format!("```{language}\n")).unwrap().1;
    block.split_once("```").unwrap().0
}

/// Proves: P-recipes
#[tokio::test]
async fn the_first_install_ends_with_a_run_that_has_succeeded() {
    let Some(installation) = Installation::prepare().await else {
        return;
    };
    let scratch = installation.scratch.path();
    let folder = scratch.join("readme");
    fs::create_dir(&folder).unwrap();
    for name in ["charts", "deploy"] {
        symlink(root().join(name), folder.join(name)).unwrap();
    }
    fs::write(folder.join("token"), TOKEN).unwrap();
    fs::write(folder.join("run.yaml"), block("# run-operator", "yaml")).unwrap();
    let script = block("## Install", "sh").replace("\\\n", " ");
    let script = script.replace(URL, &installation.service.base_url());
    for line in script.lines() {
        let line = line.split(" #").next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let mut command = match words.next() {
            Some("helm") => {
                let mut helm = Command::new(go_tool("helm").unwrap());
                helm.args(words).arg("--values");
                helm.arg(scratch.join("values.json"));
                helm
            }
            // The watch never ends.
            Some("kubectl") if !line.ends_with("-w") => {
                let mut kubectl = installation.control_plane.kubectl();
                kubectl.args(words);
                kubectl
            }
            _ => continue,
        };
        command.env("KUBECONFIG", installation.control_plane.kubeconfig());
        for place in ["CACHE", "CONFIG", "DATA"] {
            command.env(format!("HELM_{place}_HOME"), scratch.join(place));
        }
        command.current_dir(&folder);
        let done = in_the_background(command, String::new()).await;
        done.unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    let runs: Api<Run> = Api::namespaced(installation.client.clone(), "default");
    let succeeded = |run: &Run| {
        let status = run.status.as_ref();
        status.and_then(|status| status.phase) == Some(Phase::Succeeded)
    };
    wait::run_until(&runs, "train", "has succeeded", succeeded).await;
}
