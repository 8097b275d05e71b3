//! Completion, and the program as kubectl finds it.

use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::json;

use crate::support::World;

use super::runs;

/// The lines that the program prints under the name `kubectl-runs`, as it is started for a completion.
async fn lines(world: &World, start: impl FnOnce(&mut Command)) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-operator"));
    command
        .arg0("kubectl-runs")
        .env("KUBECONFIG", world.control_plane.kubeconfig());
    start(&mut command);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

async fn candidates(world: &World, words: &[&str]) -> Vec<String> {
    // The namespace is among the words that kubectl hands on, before the unfinished one.
    lines(world, |command| {
        command
            .args(["__complete", "-n", &world.namespace])
            .args(words);
    })
    .await
}

/// What a shell is offered, without the help beside it, as its script asks for it.
async fn offered(world: &World, shell: &str, words: &[&str]) -> Vec<String> {
    let line = ["kubectl-runs", "-n", &world.namespace];
    let last = line.len() + words.len() - 1;
    let found = lines(world, |command| {
        command
            .arg("--")
            .args(line)
            .args(words)
            .env("RUN_OPERATOR_COMPLETE", shell)
            .env("_CLAP_COMPLETE_INDEX", last.to_string());
    })
    .await;
    let values = found.iter().map(|line| line.split([':', '\t']).next());
    values.map(|value| value.unwrap().to_owned()).collect()
}

/// Proves: K-complete
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

/// Proves: K-complete
#[tokio::test]
async fn each_shell_is_offered_commands_flags_values_and_names() {
    let mut world = World::new().await;
    world.kill_operator();
    for name in ["train-a", "train-b", "other"] {
        world.simulate(name, json!({})).await;
    }
    for shell in ["bash", "zsh", "fish"] {
        for (words, wanted) in [
            (&["why", "tr"][..], &["train-a", "train-b"][..]),
            (&["su"], &["submit", "suspend"]),
            (&["wait", "--fo"], &["--for"]),
            (&["wait", "--for", "fin"], &["finished"]),
        ] {
            let found = offered(&world, shell, words).await;
            assert_eq!(found, wanted, "{shell}: {words:?}");
        }
    }
}

/// Proves: K-complete
#[tokio::test]
async fn each_shell_gets_a_script_that_asks_the_program() {
    let world = World::new().await;
    for (shell, own) in [
        ("bash", "complete -o nospace"),
        ("zsh", "#compdef kubectl-runs"),
        ("fish", "complete --keep-order"),
    ] {
        let script = runs(&world, &["completion", shell]).await.ok();
        for word in [own, "RUN_OPERATOR_COMPLETE", "kubectl-runs", "run-operator"] {
            assert!(
                script.contains(word),
                "{word} is not in the script for {shell}"
            );
        }
    }
    let script = runs(&world, &["completion", "kubectl"]).await.ok();
    assert_eq!(script, "#!/bin/sh\nexec kubectl-runs __complete \"$@\"\n");
}

/// Proves: K-plugin
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
    // The same under the operator's own name.
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-operator"));
    command
        .args(["runs", "list", "-n", &world.namespace])
        .env("KUBECONFIG", world.control_plane.kubeconfig());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The commands in the help that a program prints.
fn commands(program: &mut Command) -> Vec<String> {
    let output = program.arg("--help").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    let (_, after) = help.split_once("Commands:\n").unwrap();
    let (list, _) = after.split_once("\n\n").unwrap();
    // What is further to the right goes on with a command's help.
    let heads = list.lines().filter_map(|line| line.strip_prefix("  "));
    let heads = heads.filter(|line| !line.starts_with(' '));
    let names = heads.map(|line| line.split_whitespace().next().unwrap().to_owned());
    names.collect()
}

/// Proves: K-plugin
#[test]
fn the_plugin_and_the_program_have_the_same_commands() {
    let program = || Command::new(env!("CARGO_BIN_EXE_run-operator"));
    let plugin = commands(program().arg0("kubectl-runs"));
    assert!(plugin.contains(&"submit".to_owned()), "{plugin:?}");
    assert_eq!(plugin, commands(program().arg("runs")));
}
