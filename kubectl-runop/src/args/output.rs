//! The forms of what is printed: objects, lists, reports, scripts for completion.

use clap::{Args, ValueEnum};

/// What the tool says without a command.
pub const FIRST: &str = "\
Runs at the Run Orchestration Service, as objects of the cluster. What to do first:

  kubectl runop doctor --read-only              is this cluster ready, and which Workspaces take Runs?
  kubectl runop submit --image IMAGE --follow   submits a run and prints its events until it has ended
  kubectl runop list                            the Runs; those that need a person come first
  kubectl runop why NAME                        the cause of a Run's state, and what to do about it
  kubectl runop cancel NAME                     ends the run and keeps the object
  kubectl runop rerun NAME                      runs it again, as a new Run

kubectl runop --help has all commands, and COMMAND --help all of one.
";

/// What is to complete the words of a command.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell, or kubectl.
    #[arg(value_name = "SHELL")]
    pub asks: Completes,
}

/// What completes the words of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Completes {
    /// `kubectl runop`: the program kubectl_complete-runop.
    Kubectl,
    /// `kubectl-runop` in bash.
    Bash,
    /// `kubectl-runop` in zsh.
    Zsh,
    /// `kubectl-runop` in fish.
    Fish,
    /// `kubectl-runop` in PowerShell.
    Powershell,
}

/// Forms in which objects are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// A `List` of the objects as the API server has them, as JSON, in the order of the table.
    Json,
    /// The same, as YAML.
    Yaml,
    /// Their kinds and names.
    Name,
    /// The table with further columns. No columns are for programs: they may change.
    Wide,
}

impl ListFormat {
    /// The form of each object; none if they are shown in a table.
    pub(crate) fn of_objects(self) -> Option<ObjectFormat> {
        match self {
            Self::Json => Some(ObjectFormat::Json),
            Self::Yaml => Some(ObjectFormat::Yaml),
            Self::Name => Some(ObjectFormat::Name),
            Self::Wide => None,
        }
    }
}

/// Forms in which objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectFormat {
    /// The object as the API server has it, as JSON.
    Json,
    /// The same, as YAML.
    Yaml,
    /// Its kind and name.
    Name,
}

/// Forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    Text,
    /// One JSON document, for pipelines: later versions add fields and remove none.
    Json,
    /// The same, as YAML.
    Yaml,
}
