//! The commands and flags, named and meant as kubectl's.

mod contract;
mod open;
mod output;
mod schedules;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgGroup, Args, ColorChoice, Parser, Subcommand, ValueEnum};

use run_operator::api::limits::MAX_PRIORITY;

pub use contract::{
    ConnectionArgs, ContractCheckArgs, ContractCommand, ContractDiffArgs, ContractFileArgs,
    ContractInitArgs, TrialArgs,
};
pub use open::OpenArgs;
pub use output::{Completes, CompletionArgs, FIRST, ListFormat, ObjectFormat, ReportFormat};
pub use schedules::{RerunArgs, ScheduleCommand, ScheduleListArgs, ScheduleNameArgs, Subject};

/// Submits, shows, explains, awaits and changes Runs, and finds what prevents them, with your own kubeconfig and
/// permissions.
///
/// Exit codes: 0 succeeded, or as --for says; 1 ended otherwise, or a check failed; 2 wrong usage, or the API server
/// refused; 3 a person has to act (Stalled); 4 deleted, or being deleted; 124 the timeout passed; 130 Ctrl-C or SIGTERM.
/// Results are printed to standard output, everything else to standard error.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-runop",
    bin_name = "kubectl runop",
    version,
    max_term_width = 100
)]
pub struct Cli {
    /// Where.
    #[command(flatten)]
    pub cluster: ClusterArgs,

    /// Colours on standard output: auto has them on a terminal, unless `NO_COLOR` is set.
    #[arg(long, global = true, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,

    /// What.
    #[command(subcommand)]
    pub command: Command,
}

/// The cluster, the user and the namespace, as for kubectl.
#[derive(Clone, Debug, Default, Args)]
pub struct ClusterArgs {
    /// The namespace. Unset: the context's own.
    #[arg(short, long, global = true, value_parser = given(), value_name = "NAME", help_heading = "Cluster")]
    pub namespace: Option<String>,

    /// The context of the kubeconfig. Unset: its current one.
    #[arg(long, global = true, value_parser = given(), value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,

    /// The cluster of the kubeconfig. Unset: the context's own.
    #[arg(long, global = true, value_parser = given(), value_name = "NAME", help_heading = "Cluster")]
    pub cluster: Option<String>,

    /// The user of the kubeconfig. Unset: the context's own.
    #[arg(long, global = true, value_parser = given(), value_name = "NAME", help_heading = "Cluster")]
    pub user: Option<String>,

    /// The kubeconfig. Unset: the files that KUBECONFIG names, ~/.kube/config, or the Pod's service account.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,

    /// The user to impersonate.
    #[arg(long = "as", global = true, value_parser = given(), value_name = "USER", help_heading = "Cluster")]
    pub impersonate: Option<String>,

    /// A group to impersonate. Repeatable.
    #[arg(long = "as-group", global = true, value_parser = given(), value_name = "GROUP", help_heading = "Cluster")]
    pub impersonate_groups: Vec<String>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Creates a Run, from a manifest, from flags or from a `RunTemplate`.
    ///
    /// With --idempotency-key and without a name the name is made from the key: the same command, repeated, finds the Run
    /// that it made before. A Run that is there with another workload or place is an error. If the answer to the request
    /// is lost, the message has the name to look for.
    Submit(Box<SubmitArgs>),
    /// Creates a new Run from the spec of one that has ended.
    ///
    /// It is called NAME-r2, or as the next free number says, and has the old one's labels and annotations, but for those
    /// of Argo CD, Flux and Helm. `cancel`, `suspend` and `idempotencyKey` are left out. The old Run stays.
    Rerun(RerunArgs),
    /// Lists Runs; those that need a person come first.
    ///
    /// The order: what waits for a person, what waits for something else, what is shown from an old answer, what is
    /// at work, what failed, what ended otherwise; the newest first in each. Colours: red needs a person or failed, yellow
    /// waits or is shown from an old answer. `Queued (3 of 12)` has the place among the Runs that wait for a slot of their
    /// Workspace, if all can be listed.
    List(ListArgs),
    /// Explains one Run, or one `RunSchedule`: its state, the cause, and what to do about it.
    ///
    /// Follows the Run to its Workspace and to the Secret of the token, of which it reads the metadata only. Names what you
    /// may not read, and the `RunSchedule` and the `RunTemplate` that the Run is from. For a `RunSchedule`:
    /// `why schedule/nightly`.
    Why(WhyArgs),
    /// Prints the address of the run's page in the service's console, and opens it in the browser.
    ///
    /// It is in the status if the operator's contract file says where the service's answers have it
    /// (`run.consoleURLPointers`), and its origin is allowed (`--console-origin`).
    Open(OpenArgs),
    /// Prints the service's events of a Run, as its status keeps them: the last ten.
    Events(EventsArgs),
    /// Waits for Runs. Nothing is polled; a Run that is deleted and created again is another one.
    Wait(WaitArgs),
    /// Cancels runs and keeps the objects. It can't be undone.
    Cancel(NamesArgs),
    /// Submits refused Runs once more. A submission that may have made a run is repeated with its key. Refuses where a
    /// retry has no effect.
    Retry(NamesArgs),
    /// Holds Runs back that are not submitted yet.
    Suspend(NamesArgs),
    /// Resumes suspended Runs: they are submitted.
    Resume(NamesArgs),
    /// Lists, holds and resumes `RunSchedule`s, and creates a Run outside their times.
    #[command(subcommand)]
    Schedule(ScheduleCommand),
    /// Lets objects be deleted without their runs, which continue at the service.
    ///
    /// Sets `deletionPolicy: Orphan`. An object whose deletion waits for its run is released at once; deletes none.
    Orphan(NamesArgs),
    /// Finds what prevents Runs: cluster, CRDs, permissions, Workspaces, operator, service. Changes nothing.
    ///
    /// Asks the API server for its version, for the CRDs' fields, for other API groups with the same kinds, and for the
    /// permissions of the operator's service account; applies a Run without storing it (server-side dry run); reads the
    /// namespace's Workspaces, Runs and schedules, the operator's Deployment and Lease; and sends GET /version to the
    /// service, without a token. What you may not read or ask is reported as not tried. The last line names the Workspaces
    /// that take Runs.
    /// Exit code: 0 no check failed, 1 a check failed, 2 the checks can't be made.
    Doctor(DoctorArgs),
    /// Writes one file for support: objects, Events, the operator's Deployment, Lease, logs and metrics, versions.
    ///
    /// Reads no Secret. Workloads are in it as hashes, unless --include-workloads. What you may not read is named and
    /// left out. Exit code: 0 written, 2 not.
    SupportBundle(BundleArgs),
    /// Prints, tries and writes contract files, which contain the service's names and numbers.
    #[command(subcommand)]
    Contract(ContractCommand),
    /// Prints a script that completes commands, flags and names.
    ///
    /// For `kubectl runop`, in whatever shell kubectl's own completion works: `kubectl runop completion kubectl` prints the
    /// program that kubectl asks. Write it into the PATH as `kubectl_complete-runop`, executable.
    /// For `kubectl-runop` itself: the script of your shell, such as `source <(kubectl-runop completion bash)` in ~/.bashrc.
    Completion(CompletionArgs),
    /// What kubectl asks for a completion.
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    Complete {
        /// The words after `kubectl runop`; the last one is unfinished.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

/// A Run to be made.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("source").required(true).args(["filename", "image", "template"]))]
#[command(group = ArgGroup::new("waits").args(["wait", "follow"]))]
pub struct SubmitArgs {
    /// A file with the manifest of a Run, YAML or JSON; `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub filename: Option<PathBuf>,

    /// The workload's image.
    #[arg(long, value_parser = given())]
    pub image: Option<String>,

    /// The `RunTemplate` of the namespace that the Run is made from.
    #[arg(long, value_parser = given(), value_name = "NAME")]
    pub template: Option<String>,

    /// With --image a field of the workload, such as `gpus=2`, `args=[--fast]` or `resources.memory=4Gi`: the value is
    /// YAML; quote what is to stay text, as in 'version="1.0"'. With --template the value of a parameter, such as
    /// `lr=0.1`, as it is. Repeatable.
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "filename")]
    pub set: Vec<String>,

    /// The Run's name.
    #[arg(long, value_parser = given(), conflicts_with = "generate_name")]
    pub name: Option<String>,

    /// The beginning of the Run's name; five random characters follow. If there is no name at all: `run-`, or the
    /// template's name.
    #[arg(long, value_parser = given(), value_name = "PREFIX")]
    pub generate_name: Option<String>,

    /// The idempotency key of the run, visible ASCII.
    #[arg(long, value_parser = given(), value_name = "KEY")]
    pub idempotency_key: Option<String>,

    /// The Workspace: NAME, or ClusterWorkspace/NAME. Unset: the default of the namespace.
    #[arg(long, value_parser = given(), value_name = "[KIND/]NAME")]
    pub workspace: Option<String>,

    /// The place among the Runs that wait for a slot of the Workspace (maxActiveRuns): the highest goes first, -1000 to
    /// 1000. Unset: 0.
    #[arg(long, value_parser = priority, allow_negative_numbers = true, value_name = "N")]
    pub priority: Option<i32>,

    /// Prints what would be submitted: `client` makes no request (but reads the template), `server` has the API server
    /// check it. Stores nothing.
    #[arg(long, value_name = "WHERE", conflicts_with = "waits")]
    pub dry_run: Option<DryRun>,

    /// Waits until the run has ended; the exit code says how.
    #[arg(long)]
    pub wait: bool,

    /// Prints the run's events until it has ended; the exit code says how.
    #[arg(long)]
    pub follow: bool,

    /// Longest wait, such as 90s, 10m or 2h. Nothing is cancelled when it passes.
    #[arg(long, value_parser = duration, value_name = "DURATION", requires = "waits")]
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

/// Which Runs to list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The Runs of all namespaces, whatever --namespace says.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// The Runs with these labels, such as `team=vision,!draft`.
    #[arg(short = 'l', long, value_parser = given(), value_name = "LABELS")]
    pub selector: Option<String>,

    /// Form of the output.
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<ListFormat>,
}

/// What to explain.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The Run's name, or `schedule/NAME`.
    #[arg(id = "name", value_parser = schedules::subject, value_name = "NAME")]
    pub subject: Subject,

    /// Form of the output.
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: ReportFormat,
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

/// What is waited for.
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

/// What to check.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Applies no Run, not even without storing it, and so needs no permission to create any. A namespace without
    /// a Workspace is then reported and is not an error.
    #[arg(long)]
    pub read_only: bool,

    /// The operator.
    #[command(flatten)]
    pub operator: OperatorArgs,

    /// Base URL of the service, version segment included. Unset: the service is not tried.
    #[arg(long, env = "RUN_OPERATOR_BASE_URL", value_parser = given(), value_name = "URL")]
    pub base_url: Option<String>,

    /// How the service is tried.
    #[command(flatten)]
    pub trial: TrialArgs,

    /// Form of the output.
    #[arg(short, long, default_value = "text", value_name = "FORMAT")]
    pub output: ReportFormat,
}

/// What goes into a support bundle.
#[derive(Debug, Args)]
pub struct BundleArgs {
    /// The file to write, such as bundle.tgz.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Collects the objects of all namespaces, whatever --namespace says.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// The operator.
    #[command(flatten)]
    pub operator: OperatorArgs,

    /// Includes the workloads as they are, in place of their hashes. They may hold what others must not see.
    #[arg(long)]
    pub include_workloads: bool,
}

/// Where the operator is.
#[derive(Debug, Args)]
pub struct OperatorArgs {
    /// The operator's namespace, where its Lease and its Deployment are.
    #[arg(long, default_value = "run-operator", value_parser = given(), value_name = "NAME")]
    pub operator_namespace: String,

    /// The name of the operator's Lease and of its Deployment.
    #[arg(long, default_value = "run-operator", value_parser = given(), value_name = "NAME")]
    pub operator_name: String,
}

/// Refuses an empty value: it comes from a variable that is not set, and the default is often wider.
fn given() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

/// Reads `500ms`, `5s`, `10m` or `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    let span: Result<jiff::SignedDuration, _> = text.parse();
    let duration = span.ok().and_then(|span| Duration::try_from(span).ok());
    duration.ok_or_else(|| "write a number with ms, s, m or h, such as 500ms or 5m".to_owned())
}

fn priority(text: &str) -> Result<i32, String> {
    let priority: Option<i32> = text.parse().ok();
    let priority = priority.filter(|n| (-MAX_PRIORITY..=MAX_PRIORITY).contains(n));
    priority.ok_or_else(|| format!("write a number from -{MAX_PRIORITY} to {MAX_PRIORITY}"))
}

/// Takes `train` and, as kubectl prints it, `run.run-operator.dev/train`.
fn run_name(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        None if text.is_empty() => Err("the name is empty".to_owned()),
        None => Ok(text.to_owned()),
        Some(("run" | "runs" | "rn" | "run.run-operator.dev" | "runs.run-operator.dev", name)) => {
            Ok(name.to_owned())
        }
        Some(_) => Err("it is not the kind of a Run; write the name alone".to_owned()),
    }
}
