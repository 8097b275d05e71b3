//! `kubectl runop contract …` as a process.

mod check;

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
fn show_prints_the_built_in_contract_file() {
    let shown = contract(&["show"]);
    assert_eq!((shown.code, shown.told.as_str()), (Some(0), ""));
    assert_eq!(shown.out, include_str!("../../../contract/profile.yaml"));
}

#[test]
fn a_command_that_is_none_or_missing_is_refused() {
    contract(&["compare"]).is_refused(&["compare", "Usage: "]);
    contract(&["check"]).is_refused(&["--base-url", "Usage: "]);
    for command in ["show", "check"] {
        let help = contract(&[command, "--help"]);
        assert_eq!(help.code, Some(0), "{help:?}");
        let usage = "Usage: kubectl runop contract";
        assert!(help.out.contains(usage), "{help:?}");
    }
}
