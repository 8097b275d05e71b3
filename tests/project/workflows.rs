//! The workflows of GitHub: what they trust, what they may do, and that what they run exists.

use std::collections::BTreeSet;
use std::path::PathBuf;

use run_operator::api::kubernetes::MINIMUM;
use serde_json::Value;

/// The workflow of a recipe, which people copy.
const RECIPE: &str = "deploy/examples/recipes/github-actions.yaml";

fn read(path: &str) -> String {
    std::fs::read_to_string(test_support::root().join(path)).unwrap()
}

/// The names in a folder, sorted.
fn names(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(test_support::root().join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// Our own workflows: paths and texts.
fn workflows() -> Vec<(String, String)> {
    let folder = ".github/workflows";
    let paths = names(folder).into_iter();
    let paths = paths.map(|name| format!("{folder}/{name}"));
    paths.map(|path| (path.clone(), read(&path))).collect()
}

fn parsed(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn jobs(workflow: &Value) -> Vec<(&str, &Value)> {
    let jobs = workflow["jobs"].as_object().unwrap().iter();
    jobs.map(|(name, job)| (name.as_str(), job)).collect()
}

/// The actions that a text uses without a commit, or without the version behind it.
fn unpinned(text: &str) -> Vec<&str> {
    let uses = text.lines().filter_map(|line| {
        let line = line.trim_start().trim_start_matches("- ");
        line.strip_prefix("uses:").map(str::trim)
    });
    uses.filter(|uses| {
        let Some((_, pin)) = uses.split_once('@') else {
            return true;
        };
        let Some((commit, version)) = pin.split_once(" # v") else {
            return true;
        };
        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        let numbers: Vec<&str> = version.split('.').collect();
        let number = |n: &&str| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit());
        !(commit.len() == 40
            && commit.chars().all(hex)
            && numbers.len() == 3
            && numbers.iter().all(number))
    })
    .collect()
}

/// What is wrong with one line of a `run` step: it may only be a target of the Makefile or a script of `.ci`.
fn strange(command: &str, makefile: &str, scripts: &BTreeSet<String>) -> Option<String> {
    if command.contains("${{") || command.contains([';', '|', '&', '`']) {
        return Some(format!("{command}: more than one target or script"));
    }
    let command = command.strip_prefix("bash ").unwrap_or(command);
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    if program == "make" {
        let target = words.next().unwrap_or_default();
        let rule = format!("\n{target}:");
        return (!makefile.contains(&rule)).then(|| format!("make has no target {target}"));
    }
    match program.strip_prefix(".ci/") {
        Some(script) if scripts.contains(script) => None,
        _ => Some(format!("{program} is no script of .ci")),
    }
}

/// Proves: I-workflows
#[test]
fn every_action_is_pinned_by_a_commit_with_its_version() {
    let mut all = workflows();
    all.push((RECIPE.to_owned(), read(RECIPE)));
    let mut found = Vec::new();
    for (path, text) in &all {
        found.extend(unpinned(text).iter().map(|uses| format!("{path}: {uses}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Proves: I-workflows
#[test]
fn every_step_runs_a_target_or_a_script_that_exists() {
    let (makefile, scripts) = (read("Makefile"), names(".ci"));
    let mut found = Vec::new();
    let mut steps = 0;
    for (path, text) in workflows() {
        for (name, job) in jobs(&parsed(&text)) {
            for step in job["steps"].as_array().unwrap() {
                let Some(run) = step["run"].as_str() else {
                    continue;
                };
                steps += 1;
                let faults = run
                    .lines()
                    .filter_map(|line| strange(line, &makefile, &scripts));
                found.extend(faults.map(|fault| format!("{path}, {name}: {fault}")));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(steps >= 5, "only {steps} steps were looked at");
}

/// Proves: I-workflows
#[test]
fn every_job_states_its_permissions_and_its_time() {
    for (path, text) in workflows() {
        let workflow = parsed(&text);
        assert_eq!(workflow["permissions"], serde_json::json!({}), "{path}");
        assert!(workflow["concurrency"]["group"].is_string(), "{path}");
        assert!(!text.contains("pull_request_target"), "{path}");
        for (name, job) in jobs(&workflow) {
            let permissions = job["permissions"].as_object();
            let permissions = permissions.unwrap_or_else(|| panic!("{path}, {name}: permissions"));
            assert!(!permissions.is_empty(), "{path}, {name}");
            assert!(job["timeout-minutes"].is_u64(), "{path}, {name}: timeout");
            for step in job["steps"].as_array().unwrap() {
                let checkout = step["uses"].as_str().unwrap_or_default();
                if checkout.starts_with("actions/checkout@") {
                    let kept = &step["with"]["persist-credentials"];
                    assert_eq!(*kept, false, "{path}, {name}: the token stays in .git");
                }
            }
        }
    }
}

/// Proves: I-workflows, I-minimum-kubernetes
#[test]
fn every_kubernetes_that_can_be_built_is_tested() {
    let folders = names("tests/cluster").into_iter();
    let mut versions: Vec<String> = folders
        .filter_map(|name| Some(name.strip_prefix("kubernetes-")?.to_owned()))
        .collect();
    assert_eq!(versions[0], MINIMUM.to_string());
    // `.ci/run` has the newest.
    versions.pop();
    let ci = parsed(&read(".github/workflows/ci.yml"));
    let matrix = &ci["jobs"]["kubernetes"]["strategy"]["matrix"]["kubernetes"];
    assert_eq!(*matrix, serde_json::json!(versions));
}

/// Proves: I-workflows
#[test]
fn planted_faults_of_a_workflow_are_found() {
    let pinned = "- uses: a/b/c@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6.0.2";
    assert!(unpinned(pinned).is_empty());
    for fault in [
        "uses: a/b@v6",
        "uses: a/b@de0fac2e4500dabe0009e67214ff5f5447ce83dd",
        "uses: a/b@de0fac2e4500dabe0009e67214ff5f5447ce83dd # v6",
        "uses: a/b@de0fac2e4500dabe0009e67214ff5f5447ce83d # v6.0.2",
        "uses: ./local",
    ] {
        assert_eq!(unpinned(fault).len(), 1, "{fault}");
    }
    let (makefile, scripts) = ("\ncheck: x\n", BTreeSet::from(["run".to_owned()]));
    let look = |command| strange(command, makefile, &scripts);
    assert_eq!(look("bash .ci/run").or(look("make check A=b")), None);
    for fault in [
        "make chek",
        ".ci/absent",
        "curl example.com",
        "make check; id",
        "make check A=${{ github.head_ref }}",
    ] {
        assert!(look(fault).is_some(), "{fault}");
    }
}

/// Proves: I-workflows
#[test]
fn dependabot_watches_every_folder_that_pins_something() {
    let dependabot = parsed(&read(".github/dependabot.yml"));
    let mut watched = BTreeSet::new();
    for update in dependabot["updates"].as_array().unwrap() {
        let kind = update["package-ecosystem"].as_str().unwrap();
        let several = update["directories"].as_array().into_iter().flatten();
        let folders = several.chain([&update["directory"]]);
        let folders = folders.filter_map(Value::as_str);
        watched.extend(folders.map(|folder| format!("{kind} {folder}")));
    }
    for (kind, folder, file) in [
        ("cargo", "/", "Cargo.lock"),
        ("cargo", "/fuzz", "fuzz/Cargo.lock"),
        ("gomod", "/tools/*", "tools/helm/go.mod"),
        ("gomod", "/tests/packaging", "tests/packaging/go.mod"),
        (
            "pip",
            "/tests/schemathesis",
            "tests/schemathesis/requirements.txt",
        ),
        ("github-actions", "/", ".github/workflows/ci.yml"),
    ] {
        let file: PathBuf = test_support::root().join(file);
        assert!(file.is_file(), "{}", file.display());
        assert!(
            watched.contains(&format!("{kind} {folder}")),
            "{kind} {folder}"
        );
    }
}
