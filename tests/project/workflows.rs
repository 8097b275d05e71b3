//! What the workflows of GitHub trust.

use std::collections::BTreeSet;

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

/// The actions that a text uses without a commit, or without the version behind it. What `./` begins is of the same commit.
fn unpinned(text: &str) -> Vec<&str> {
    let uses = text.lines().filter_map(|line| {
        let line = line.trim_start().trim_start_matches("- ");
        let uses = line.strip_prefix("uses:").map(str::trim);
        uses.filter(|uses| !uses.starts_with("./"))
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

/// Proves: I-release
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

/// Proves: I-release
#[test]
fn nothing_is_published_before_ci_has_passed_nor_in_a_dry_run() {
    let workflow: Value = serde_saphyr::from_str(&read(".github/workflows/release.yml")).unwrap();
    let jobs = &workflow["jobs"];
    assert_eq!(jobs["ci"]["uses"], "./.github/workflows/ci.yml");
    assert_eq!(jobs["publish"]["if"], "github.event_name == 'push'");
    assert_eq!(jobs["publish"]["needs"], "join");
    let before = jobs["join"]["needs"].as_array().unwrap();
    assert!(before.contains(&"ci".into()), "{before:?}");
    for (name, job) in jobs.as_object().unwrap() {
        let rights = job["permissions"].as_object().unwrap();
        let writes = rights.values().any(|right| right == "write");
        assert!(!writes || name == "publish", "{name} may write");
    }
}
