//! Command lines that people copy or call by a key.

use clap::CommandFactory;

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
