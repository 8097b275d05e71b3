//! The flags of `kubectl runs`, named and meant as kubectl's.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::output::OutputFormat;
use super::values::{duration, given};

/// Submits, shows, explains, awaits and changes Runs, with your own kubeconfig and permissions.
///
/// Exit codes: 0 succeeded, or as --for says; 1 ended otherwise; 2 wrong usage, or the API server refused;
/// 3 a person has to act (Stalled); 4 deleted, or deleted and created again; 124 the timeout passed;
/// 130 Ctrl-C or SIGTERM.
/// Results are printed to standard output, everything else to standard error.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-runs",
    bin_name = "kubectl runs",
    version,
    max_term_width = 100
)]
#[command(arg_required_else_help = false)]
pub struct KubectlRuns {
    /// The same flags and commands as `run-operator runs`.
    #[command(flatten)]
    pub runs: RunsArgs,
}

/// The cluster, and what to do there.
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// Where.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// What.
    #[command(subcommand)]
    pub command: RunsCommand,
}

/// The cluster, the user and the namespace, as for kubectl.
#[derive(Clone, Debug, Default, Args)]
pub struct ClusterArgs {
    /// The namespace; the context's own, if unset.
    #[arg(short, long, global = true, value_parser = given, value_name = "NAME", help_heading = "Cluster")]
    pub namespace: Option<String>,

    /// The context of the kubeconfig; its current one, if unset.
    #[arg(long, global = true, value_parser = given, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,

    /// The cluster of the kubeconfig; the context's own, if unset.
    #[arg(long, global = true, value_parser = given, value_name = "NAME", help_heading = "Cluster")]
    pub cluster: Option<String>,

    /// The user of the kubeconfig; the context's own, if unset.
    #[arg(long, global = true, value_parser = given, value_name = "NAME", help_heading = "Cluster")]
    pub user: Option<String>,

    /// The kubeconfig; if unset, the files that KUBECONFIG names, ~/.kube/config, or the Pod's service account.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,

    /// The user to impersonate.
    #[arg(long = "as", global = true, value_parser = given, value_name = "USER", help_heading = "Cluster")]
    pub impersonate: Option<String>,

    /// A group to impersonate. Repeatable.
    #[arg(long = "as-group", global = true, value_parser = given, value_name = "GROUP", help_heading = "Cluster")]
    pub impersonate_groups: Vec<String>,
}

/// What to do with Runs.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// Creates Runs, from a manifest or from flags.
    ///
    /// With --idempotency-key and without a name the name is made from the key, so that the same command, repeated,
    /// finds the Run that it made before and submits nothing twice. A Run that is there with another workload or place is
    /// an error. Names are chosen before the request: if its answer is lost, the message has the name to look for.
    Submit(Box<SubmitArgs>),
    /// Lists Runs; those that need a person come first.
    ///
    /// The order: what waits for a person, what waits for something else, what is shown from an old answer, what is
    /// at work, what failed, what ended otherwise; the newest first in each.
    List(ListArgs),
    /// Explains one Run: its state, the cause, and what to do about it.
    ///
    /// Follows the Run to its Workspace and to the Secret of the token, of which it reads the metadata only. For
    /// what you may not read it says so, and shows what the Run's own status has.
    Why(WhyArgs),
    /// Prints the service's events of a Run, as its status keeps them: the last ten.
    Events(EventsArgs),
    /// Waits for Runs. Nothing is polled; a Run that is deleted and created again is another one.
    Wait(WaitArgs),
    /// Cancels runs and keeps the objects. It can't be undone.
    Cancel(NamesArgs),
    /// Submits refused Runs once more; refuses where nothing could come of it. A run that may exist is not doubled.
    Retry(NamesArgs),
    /// Holds Runs back that are not submitted yet.
    Suspend(NamesArgs),
    /// Resumes suspended Runs: they are submitted.
    Resume(NamesArgs),
    /// Lets objects be deleted without their runs, which continue at the service.
    ///
    /// Sets `deletionPolicy: Orphan`. An object whose deletion waits for its run is released at once; deletes none.
    Orphan(NamesArgs),
    /// Prints the script that completes commands, flags and names.
    ///
    /// `kubectl` prints the program by which kubectl itself completes this plugin: put it into the PATH as
    /// kubectl_complete-runs, and make it executable.
    Completion(CompletionArgs),
    /// What kubectl asks for a completion.
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    Complete(CompleteArgs),
}

/// A Run to be made.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["filename", "image"]))]
pub struct SubmitArgs {
    /// A file of Run manifests, YAML or JSON; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub filename: Option<PathBuf>,

    /// The workload's image.
    #[arg(long, value_parser = given)]
    pub image: Option<String>,

    /// A field of the workload, such as `gpus=2`, `args=[--fast]` or `resources.memory=4Gi`. The value is YAML: quote
    /// what is to stay text, as in 'version="1.0"'. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", requires = "image")]
    pub set: Vec<String>,

    /// The Run's name.
    #[arg(long, value_parser = given, conflicts_with = "generate_name")]
    pub name: Option<String>,

    /// The beginning of the Run's name; five random characters follow. `run-`, if there is no name at all.
    #[arg(long, value_parser = given, value_name = "PREFIX")]
    pub generate_name: Option<String>,

    /// The idempotency key of the run, visible ASCII.
    #[arg(long, value_parser = given, value_name = "KEY")]
    pub idempotency_key: Option<String>,

    /// The Workspace: NAME, or ClusterWorkspace/NAME. `default`, if unset.
    #[arg(long, value_parser = given, value_name = "[KIND/]NAME")]
    pub workspace: Option<String>,

    /// Prints what would be submitted: `client` makes no request, `server` has the API server check it. Stores nothing.
    #[arg(long, value_name = "WHERE", conflicts_with_all = ["wait", "follow"])]
    pub dry_run: Option<DryRun>,

    /// Waits until the runs have ended; the exit code says how.
    #[arg(long)]
    pub wait: bool,

    /// Prints the run's events until it has ended; the exit code says how. For one Run.
    #[arg(long, conflicts_with = "wait")]
    pub follow: bool,

    /// Longest wait, such as 90s, 10m or 2h. Nothing is cancelled when it passes.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,

    /// Form of the output; of a Run that is awaited, as it is at its end.
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "follow")]
    pub output: Option<ObjectFormat>,
}

/// Where a Run is only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// Here.
    Client,
    /// At the API server: validation, admission, permissions.
    Server,
}

/// Which Runs to list, and how.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The Runs of all namespaces, whatever --namespace says.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// The Runs with these labels, such as `team=vision,!draft`.
    #[arg(short = 'l', long, value_parser = given, value_name = "LABELS")]
    pub selector: Option<String>,

    /// The Runs with these fields, such as `status.phase=Active`.
    #[arg(long, value_parser = given, value_name = "FIELDS")]
    pub field_selector: Option<String>,

    /// Form of the output.
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<ListFormat>,

    /// Omits the heads of the columns.
    #[arg(long)]
    pub no_headers: bool,
}

/// The Run to explain.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// Its name.
    #[arg(value_parser = run_name)]
    pub name: String,

    /// Form of the output.
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: OutputFormat,
}

/// The Run whose events to print.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Its name.
    #[arg(value_parser = run_name)]
    pub name: String,

    /// Prints further events as they come, until the run has ended; the exit code says how.
    #[arg(short, long)]
    pub follow: bool,

    /// Longest wait, with --follow.
    #[arg(long, value_parser = duration, value_name = "DURATION", requires = "follow")]
    pub timeout: Option<Duration>,

    /// Form of the output: `json` is one object a line.
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: OutputFormat,
}

/// The Runs to wait for.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Their names.
    #[arg(value_parser = run_name, required = true, value_name = "NAME")]
    pub names: Vec<String>,

    /// What to wait for: exit code 0 once it is so.
    #[arg(long = "for", default_value = "succeeded", value_name = "GOAL")]
    pub goal: Goal,

    /// Longest wait, such as 90s, 10m or 2h. Unset: as long as it takes.
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub timeout: Option<Duration>,

    /// Form in which each object is printed at its end.
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<ObjectFormat>,
}

/// What `wait` waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Goal {
    /// The run has ended, in whatever way.
    Finished,
    /// The run has succeeded.
    Succeeded,
    /// The service has accepted the run.
    Accepted,
}

/// The Runs to change.
#[derive(Debug, Args)]
pub struct NamesArgs {
    /// Their names.
    #[arg(value_parser = run_name, required = true, value_name = "NAME")]
    pub names: Vec<String>,

    /// Form of the output.
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<ObjectFormat>,
}

/// Where the completion is for.
#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell, or `kubectl`.
    pub shell: Completer,
}

/// What can complete commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Completer {
    /// bash, for `kubectl-runs` and `run-operator`.
    Bash,
    /// zsh, for the same.
    Zsh,
    /// fish, for the same.
    Fish,
    /// kubectl, for `kubectl runs`.
    Kubectl,
}

/// The words that are to be completed.
#[derive(Debug, Args)]
pub struct CompleteArgs {
    /// The words after `kubectl runs`; the last one is unfinished.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<std::ffi::OsString>,
}

/// Forms in which objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ObjectFormat {
    /// The object, as JSON.
    Json,
    /// The object, as YAML.
    Yaml,
    /// Its kind and name.
    Name,
}

/// Forms in which Runs are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// The objects, as JSON.
    Json,
    /// The objects, as YAML.
    Yaml,
    /// Their kinds and names.
    Name,
    /// With more columns.
    Wide,
}

/// Takes `train` and, as kubectl prints it, `run.run-operator.dev/train`.
fn run_name(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        None => text,
        Some(("run" | "runs" | "rn" | "run.run-operator.dev" | "runs.run-operator.dev", name)) => {
            name
        }
        Some((kind, _)) => {
            return Err(format!(
                "{kind:?} is not the kind of a Run; write the name alone"
            ));
        }
    };
    given(name)
}
