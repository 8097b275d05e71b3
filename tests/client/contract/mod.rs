//! `kubectl runop contract …` as a process.

mod check;
mod openapi;
mod run;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// The result of a command.
#[derive(Debug)]
struct Done {
    code: Option<i32>,
    out: String,
    told: String,
}

impl Done {
    /// The one JSON document that was printed.
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Exit code 2, nothing printed, and one line that holds these words.
    fn is_trouble(&self, words: &[&str]) {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert_eq!(self.out, "");
        assert_eq!(self.told.lines().count(), 1, "not one line: {}", self.told);
        self.is_refused(words);
    }

    /// The same for a wrong command, whose usage is shown.
    fn is_refused(&self, words: &[&str]) {
        assert_eq!(self.code, Some(2), "{self:?}");
        assert!(self.told.starts_with("error: "), "{}", self.told);
        test_support::says(&self.told, words);
    }
}

/// Runs `kubectl runop contract` with these arguments, and nothing of the environment but `env`. A token for another tool
/// may lie in the environment: it must not be used.
fn contract_with(args: &[&str], env: &[(&str, &str)]) -> Done {
    let output = Command::new(test_support::programs::kubectl_runop())
        .arg("contract")
        .args(args)
        .env_clear()
        .env("TOKEN", crate::support::TOKEN)
        .env("HTTP_PROXY", "http://127.0.0.1:9")
        .env("HTTPS_PROXY", "http://127.0.0.1:9")
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Done {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        told: String::from_utf8(output.stderr).unwrap(),
    }
}

fn contract(args: &[&str]) -> Done {
    contract_with(args, &[])
}

/// A file in the build's own directory for temporary files. It is there at once and whole: the cases of one
/// test write the same one at the same time.
fn file(name: &str, text: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let path = format!("{}/contract-{name}", env!("CARGO_TARGET_TMPDIR"));
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let draft = format!("{path}.{}-{number}", std::process::id());
    std::fs::write(&draft, text).unwrap();
    std::fs::rename(&draft, &path).unwrap();
    path
}

/// The built-in contract file with one text replaced.
fn changed(name: &str, from: &str, to: &str) -> String {
    let text = include_str!("../../../contract/profile.yaml");
    assert!(text.contains(from), "{from:?} is not in the contract file");
    file(name, &text.replacen(from, to, 1))
}

/// Proves: L-contract
#[test]
fn show_prints_the_built_in_values_as_a_contract_file() {
    let shown = contract(&["show"]);
    assert_eq!((shown.code, shown.told.as_str()), (Some(0), ""));
    assert_eq!(shown.out, include_str!("../../../contract/profile.yaml"));
}

/// Proves: L-contract
#[test]
fn show_marks_what_comes_from_the_file_and_its_output_is_one() {
    let header = "apiVersion: contract.run-operator.dev/v1alpha1\nkind: Contract\n";
    let text = "version: {accepted: [1.10]}\nrun: {resultPointers: {loss: [/loss]}}\nstates:\n  failed: [broken]\n\
        keyRetentionSeconds: 60\n";
    let path = file("overlay.yaml", &format!("{header}{text}"));
    let shown = contract(&["show", "--contract", &path]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let marked: Vec<&str> = shown
        .out
        .lines()
        .filter(|line| line.contains("# from "))
        .collect();
    let mark = format!("  # from {path}");
    let expected = [
        "  accepted: [\"1.10\"]",
        "  resultPointers: {\"loss\":[\"/loss\"]}",
        "  failed: [\"broken\"]",
        "keyRetentionSeconds: 60",
    ];
    assert_eq!(marked, expected.map(|line| format!("{line}{mark}")));
    let again = contract(&["show", "--contract", &file("shown.yaml", &shown.out)]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let without_marks = |out: &str| -> Vec<String> {
        let lines = out
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        lines
            .map(|line| {
                line.split("  # from")
                    .next()
                    .unwrap()
                    .replace(['"', ' '], "")
            })
            .collect()
    };
    assert_eq!(without_marks(&again.out), without_marks(&shown.out));
}

/// Proves: L-contract
#[test]
fn show_marks_every_value_of_a_file_that_gives_all() {
    let shown = contract(&["show", "--contract", "contract/profile.yaml"]);
    let values = |mark: &str| {
        let lines = shown
            .out
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        lines
            .filter(|line| line.ends_with(mark) && line.contains(": "))
            .count()
    };
    // All but apiVersion and kind.
    assert_eq!(
        values("# from contract/profile.yaml"),
        values("") - 2,
        "{}",
        shown.out
    );
}

#[test]
fn a_command_that_is_none_or_missing_is_refused() {
    contract(&["compare"]).is_refused(&["compare", "Usage: "]);
    contract(&["check"]).is_refused(&["--base-url", "Usage: "]);
    contract(&["diff", "--openapi", "one.yaml"]).is_refused(&["--openapi", "2 values"]);
    for command in ["show", "check", "init", "diff"] {
        let help = contract(&[command, "--help"]);
        assert_eq!(help.code, Some(0), "{help:?}");
        let usage = "Usage: kubectl runop contract";
        assert!(help.out.contains(usage), "{help:?}");
    }
}
