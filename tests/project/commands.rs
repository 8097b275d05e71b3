//! Commands that somebody may copy from a document, a note or a comment.

use crate::files;

/// Names of our resources that other operators' resources have too, such as `workspaces.app.terraform.io` and
/// `runs.tekton.dev`: which of them kubectl takes is not known beforehand.
const SHARED: [&str; 6] = [
    "run",
    "runs",
    "workspace",
    "workspaces",
    "clusterworkspace",
    "clusterworkspaces",
];

/// What changes objects: it must not reach another operator's.
const WRITES: [&str; 5] = ["delete", "patch", "annotate", "label", "edit"];

/// The resources that the writing `kubectl` commands of a text name without their group.
fn ungrouped(text: &str) -> Vec<String> {
    // A command continues in the next line of a paragraph.
    let text = text.replace("\n  ", " ").replace("\n#", " ");
    let mut found = Vec::new();
    for line in text.lines() {
        for command in line.split("kubectl ").skip(1) {
            let command = command
                .split(['`', '|', ';', '&', '"'])
                .next()
                .unwrap_or_default();
            let mut words = command.split_whitespace();
            if !words.any(|word| WRITES.contains(&word)) {
                continue;
            }
            let resources = resources(words).unwrap_or_default().split(',');
            let resources = resources.map(|word| word.split('/').next().unwrap_or_default());
            let shared = resources.filter(|word| SHARED.contains(word));
            found.extend(shared.map(|word| format!("kubectl {}: {word}", command.trim())));
        }
    }
    found
}

/// The resources to delete: the first word that belongs to no flag.
fn resources<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    loop {
        match words.next()? {
            "-n" | "--namespace" | "-l" | "--selector" => drop(words.next()),
            flag if flag.starts_with('-') => {}
            resources => return Some(resources),
        }
    }
}

/// Proves: P-recipes
#[test]
fn commands_that_write_name_the_api_group() {
    let mut found = Vec::new();
    for file in files::ALL.iter() {
        // The tests' own clusters know no other operator.
        let told = !file.starts_with("tests/") && file != "CHANGELOG.md";
        let Ok(text) = std::fs::read_to_string(test_support::root().join(file)) else {
            continue;
        };
        if told {
            found.extend(
                ungrouped(&text)
                    .iter()
                    .map(|what| format!("{file}: {what}")),
            );
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Proves: P-recipes
#[test]
fn a_planted_write_without_a_group_is_found() {
    let planted = "`kubectl -n a delete runs,workspaces.run-operator.dev --all` and\n#   kubectl delete -n a --wait=false run/train\n\
                   `kubectl patch workspace default -p x`";
    assert_eq!(ungrouped(planted).len(), 3);
    let fine = "kubectl delete runs.run-operator.dev,workspaces.run-operator.dev --all --all-namespaces\n\
                `kubectl get runs` before `kubectl delete -f runs.yaml`";
    assert_eq!(ungrouped(fine), Vec::<String>::new());
}
