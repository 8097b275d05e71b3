//! Completion, and the program as kubectl finds it.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use crate::support::World;

use super::runs;

async fn candidates(world: &World, words: &[&str]) -> Vec<String> {
    // The namespace is among the words that kubectl hands on, before the unfinished one.
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-operator"));
    std::os::unix::process::CommandExt::arg0(&mut command, "kubectl-runs");
    command
        .args(["__complete", "-n", &world.namespace])
        .args(words)
        .env("KUBECONFIG", world.control_plane.kubeconfig());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

// Proves: K-complete
#[tokio::test]
async fn commands_flags_values_and_names_are_completed_for_kubectl() {
    let mut world = World::new().await;
    world.kill_operator();
    for name in ["train-a", "train-b", "other"] {
        world.simulate(name, json!({})).await;
    }
    assert_eq!(
        candidates(&world, &["why", "tr"]).await,
        ["train-a", "train-b", ":4"]
    );
    let commands = candidates(&world, &["s"]).await;
    assert!(
        commands.iter().any(|line| line.starts_with("submit\t")),
        "{commands:?}"
    );
    assert!(
        commands.iter().any(|line| line.starts_with("suspend\t")),
        "{commands:?}"
    );
    let flags = candidates(&world, &["wait", "--f"]).await;
    assert!(
        flags.iter().any(|line| line.starts_with("--for\t")),
        "{flags:?}"
    );
    let goals = candidates(&world, &["wait", "--for", ""]).await;
    assert!(
        goals.iter().any(|line| line.starts_with("finished\t")),
        "{goals:?}"
    );
}

// Proves: K-complete
#[tokio::test]
async fn each_shell_gets_a_script_that_asks_the_program() {
    let world = World::new().await;
    for shell in ["bash", "zsh", "fish"] {
        let script = runs(&world, &["completion", shell]).await.ok();
        for word in ["RUN_OPERATOR_COMPLETE", "kubectl-runs", "run-operator"] {
            assert!(
                script.contains(word),
                "{word} is not in the script for {shell}"
            );
        }
    }
    let script = runs(&world, &["completion", "kubectl"]).await.ok();
    assert_eq!(script, "#!/bin/sh\nexec kubectl-runs __complete \"$@\"\n");
}

// Proves: K-plugin
#[tokio::test]
async fn kubectl_finds_the_plugin_by_its_name() {
    let world = World::new().await;
    let directory = world.folder().join("bin");
    std::fs::create_dir(&directory).unwrap();
    symlink(
        env!("CARGO_BIN_EXE_run-operator"),
        directory.join("kubectl-runs"),
    )
    .unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut kubectl = world.control_plane.kubectl();
    kubectl
        .args(["runs", "list", "-n", &world.namespace])
        .env("PATH", format!("{}:{path}", directory.display()));
    let output = tokio::task::spawn_blocking(move || kubectl.output().unwrap())
        .await
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("No resources found in"), "{said}");
    // The same commands under the operator's own name.
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-operator"));
    command
        .args(["runs", "list", "-n", &world.namespace])
        .env("KUBECONFIG", world.control_plane.kubeconfig());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
