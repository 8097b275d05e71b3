//! Command lines that people copy or call by a key.

use clap::CommandFactory;
use serde_json::Value;

use super::*;

/// Parses a command line as kubectl hands it on.
fn parsed(line: &str) -> Result<Cli, clap::Error> {
    let words = line.strip_prefix("kubectl runop ");
    let words = words.unwrap_or_else(|| panic!("{line} is not of kubectl runop"));
    Cli::try_parse_from(std::iter::once("kubectl-runop").chain(words.split_whitespace()))
}

#[test]
fn the_commands_contradict_nothing() {
    Cli::command().debug_assert();
}

/// Proves: K-output
#[test]
fn what_to_do_first_is_short_and_made_of_commands() {
    assert!(FIRST.lines().count() <= 15);
    let commands = FIRST.lines().filter_map(|line| line.strip_prefix("  "));
    let mut count = 0;
    for line in commands {
        let command = line.split("  ").next().unwrap_or_default();
        parsed(command).unwrap();
        count += 1;
    }
    assert!(count > 0);
}

/// Proves: K-plugin
#[test]
fn each_key_of_k9s_calls_a_command() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/k9s/plugins.yaml");
    let file: Value = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let plugins = file["plugins"].as_object().unwrap();
    let mut keys = Vec::new();
    for (name, plugin) in plugins {
        let line = plugin["args"][1].as_str().unwrap();
        let (command, pager) = line.split_once(" 2>&1 | ").unwrap();
        assert!(pager.starts_with("less -K"), "{name}");
        let cli = parsed(&command.replace('\'', "")).unwrap();
        assert_eq!(
            cli.cluster.namespace.as_deref(),
            Some("$NAMESPACE"),
            "{name}"
        );
        assert_eq!(cli.cluster.context.as_deref(), Some("$CONTEXT"), "{name}");
        let reads = matches!(
            cli.command,
            Command::Why(_) | Command::Events(_) | Command::Open(_)
        );
        assert_eq!(plugin["dangerous"] == true, !reads, "{name}");
        assert_eq!(plugin["confirm"] == true, !reads, "{name}");
        keys.push((&plugin["scopes"][0], &plugin["shortCut"]));
    }
    let count = keys.len();
    keys.sort_by_key(|(scope, key)| (scope.to_string(), key.to_string()));
    keys.dedup();
    assert_eq!(keys.len(), count, "{keys:?}");
}
