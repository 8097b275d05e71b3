//! Completion, and the program as kubectl finds it.

use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::json;

use crate::support::{World, output_of, says};

use super::desk;

/// The program under this name.
fn program(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_run-operator"));
    command.arg0(name);
    command
}

/// What the program prints when it is started for a completion, by its words and with these variables.
async fn completed(world: &World, words: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let mut command = program("kubectl-runs");
    command
        .args(words)
        .envs(variables.iter().copied())
        .env("KUBECONFIG", world.control_plane.kubeconfig());
    let text = output_of(command, "").await.unwrap();
    text.lines().map(str::to_owned).collect()
}

/// What kubectl is offered. The namespace is among the words that it hands on, before the unfinished one.
async fn candidates(world: &World, words: &[&str]) -> Vec<String> {
    let words = [&["__complete", "-n", &world.namespace], words].concat();
    completed(world, &words, &[]).await
}

/// What a shell is offered, without the help beside it, as its script asks for it.
async fn offered(world: &World, shell: &str, words: &[&str]) -> Vec<String> {
    let line = [&["kubectl-runs", "-n", &world.namespace], words].concat();
    let last = (line.len() - 1).to_string();
    let line = [&["--"], &line[..]].concat();
    let variables = [
        ("RUN_OPERATOR_COMPLETE", shell),
        ("_CLAP_COMPLETE_INDEX", &last),
    ];
    let found = completed(world, &line, &variables).await;
    let values = found.iter().map(|line| line.split([':', '\t']).next());
    values.map(|value| value.unwrap().to_owned()).collect()
}

/// Proves: K-complete
#[tokio::test]
async fn commands_flags_values_and_names_are_completed_for_kubectl_and_each_shell() {
    let world = desk().await;
    for name in ["train-a", "train-b", "other"] {
        world.simulate(name, json!({})).await;
    }
    let names = candidates(&world, &["why", "tr"]).await;
    assert_eq!(names, ["train-a", "train-b", ":4"]);
    for (words, wanted) in [
        (&["s"][..], &["submit", "suspend"][..]),
        (&["wait", "--f"], &["--for"]),
        (&["wait", "--for", ""], &["finished"]),
    ] {
        let found = candidates(&world, words).await;
        for wanted in wanted {
            let with_help = format!("{wanted}\t");
            let offered = found.iter().any(|line| line.starts_with(&with_help));
            assert!(offered, "{wanted} is not in {found:?}");
        }
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
#[test]
fn each_shell_gets_a_script_that_asks_the_program() {
    let script = |shell: &str| {
        let output = program("kubectl-runs").args(["completion", shell]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    for (shell, own) in [
        ("bash", "complete -o nospace"),
        ("zsh", "#compdef kubectl-runs"),
        ("fish", "complete --keep-order"),
    ] {
        let script = script(shell);
        says(&script, &[own, "RUN_OPERATOR_COMPLETE", "run-operator"]);
    }
    let kubectl = "#!/bin/sh\nexec kubectl-runs __complete \"$@\"\n";
    assert_eq!(script("kubectl"), kubectl);
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
#[tokio::test]
async fn kubectl_finds_the_plugin_which_has_the_commands_of_the_program() {
    let plugin = commands(&mut program("kubectl-runs"));
    assert!(plugin.contains(&"submit".to_owned()), "{plugin:?}");
    assert_eq!(plugin, commands(program("run-operator").arg("runs")));

    let world = desk().await;
    let directory = world.folder().join("bin");
    std::fs::create_dir(&directory).unwrap();
    let link = directory.join("kubectl-runs");
    symlink(env!("CARGO_BIN_EXE_run-operator"), link).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut kubectl = world.control_plane.kubectl();
    kubectl.env("PATH", format!("{}:{path}", directory.display()));
    let mut own = program("run-operator");
    own.env("KUBECONFIG", world.control_plane.kubeconfig());
    for mut command in [kubectl, own] {
        command.args(["runs", "list", "-n", &world.namespace]);
        assert_eq!(output_of(command, "").await.unwrap(), "");
    }
}
