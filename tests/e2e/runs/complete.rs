//! Completion, and the program as kubectl finds it.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;
use test_support::programs;

use crate::support::{World, output_of, says};

use super::desk;

/// What the program prints when it is started for a completion, by its words and with these variables.
async fn completed(world: &World, words: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let mut command = Command::new(programs::kubectl_runop());
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
    let line = [&["kubectl-runop", "-n", &world.namespace], words].concat();
    let last = (line.len() - 1).to_string();
    let line = [&["--"], &line[..]].concat();
    let variables = [("COMPLETE", shell), ("_CLAP_COMPLETE_INDEX", &last)];
    let found = completed(world, &line, &variables).await;
    let values = found.iter().map(|line| line.split([':', '\t']).next());
    values.map(|value| value.unwrap().to_owned()).collect()
}

/// Proves: K-plugin
#[tokio::test]
async fn commands_flags_values_and_names_are_completed_for_kubectl_and_each_shell() {
    let world = desk().await;
    for name in ["train-a", "train-b", "other"] {
        world.simulate(name, json!({})).await;
    }
    let names = candidates(&world, &["why", "tr"]).await;
    assert_eq!(names, ["train-a", "train-b", ":4"]);
    // The namespace may come behind the command, too.
    let words = ["__complete", "wait", "-n", &world.namespace, "tr"];
    let names = completed(&world, &words, &[]).await;
    assert_eq!(names, ["train-a", "train-b", ":4"]);
    for (words, wanted) in [
        (&["s"][..], &["submit", "suspend", "support-bundle"][..]),
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
            (&["sub"], &["submit"]),
            (&["wait", "--fo"], &["--for"]),
            (&["wait", "--for", "fin"], &["finished"]),
        ] {
            let found = offered(&world, shell, words).await;
            assert_eq!(found, wanted, "{shell}: {words:?}");
        }
    }
}

/// Proves: K-plugin
#[test]
fn each_shell_gets_a_script_that_asks_the_program() {
    for (shell, own) in [
        ("bash", "complete -o nospace"),
        ("zsh", "#compdef kubectl-runop"),
        ("fish", "complete --keep-order"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        says(&script(shell), &[own, "COMPLETE", "kubectl-runop"]);
    }
}

/// What `completion` prints.
fn script(asks: &str) -> String {
    let mut program = Command::new(programs::kubectl_runop());
    let output = program.args(["completion", asks]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Proves: K-plugin
#[tokio::test]
async fn kubectl_finds_the_plugin_and_completes_it() {
    let world = desk().await;
    world.simulate("train", json!({})).await;
    let directory = world.folder().join("bin");
    std::fs::create_dir(&directory).unwrap();
    symlink(programs::kubectl_runop(), directory.join("kubectl-runop")).unwrap();
    let completer = directory.join("kubectl_complete-runop");
    std::fs::write(&completer, script("kubectl")).unwrap();
    let mut executable = Command::new("chmod");
    assert!(
        executable
            .arg("+x")
            .arg(&completer)
            .status()
            .unwrap()
            .success()
    );
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", directory.display());
    let kubectl = async |words: &[&str]| {
        let mut kubectl = world.control_plane.kubectl();
        kubectl.env("PATH", &path).args(words);
        output_of(kubectl, "").await.unwrap()
    };
    let first = kubectl(&["runop"]).await;
    says(&first, &["What to do first", "kubectl runop why NAME"]);
    let listed = kubectl(&["runop", "list", "-o", "name", "-n", &world.namespace]).await;
    assert_eq!(listed, "run.run-operator.dev/train\n");
    let words = ["__complete", "runop", "-n", &world.namespace, "why", "tr"];
    assert!(kubectl(&words).await.starts_with("train\n:4\n"));
}
