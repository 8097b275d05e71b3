//! The commands for RunSchedules, and `rerun`.

use clap::{Args, Subcommand};

use super::{ListFormat, ObjectFormat, given, run_name};

/// The kinds by which a schedule is named before a slash.
const KINDS: [&str; 6] = [
    "schedule",
    "rsch",
    "runschedule",
    "runschedules",
    "runschedule.run-operator.dev",
    "runschedules.run-operator.dev",
];

/// The Run to run again.
#[derive(Debug, Args)]
pub struct RerunArgs {
    /// Its name.
    #[arg(value_parser = run_name)]
    pub name: String,

    /// The new Run's name. Unset: NAME-r2, or the next free number.
    #[arg(long = "name", value_parser = given(), value_name = "NEW")]
    pub new_name: Option<String>,

    /// Also if the Run has not ended: both are active then.
    #[arg(long)]
    pub beside: bool,

    /// The value of a parameter, such as `lr=0.1`. The new Run is then made from the old one's `RunTemplate` as it is now.
    /// Other parameters have their defaults, not the old Run's values. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Form of the output.
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<ObjectFormat>,
}

/// What to do with schedules.
#[derive(Debug, Subcommand)]
pub enum ScheduleCommand {
    /// Lists `RunSchedule`s, by name.
    List(ScheduleListArgs),
    /// Holds a `RunSchedule`: no Run is created until it is resumed. Its Runs go on.
    Suspend(ScheduleNameArgs),
    /// Resumes a `RunSchedule`: Runs are created from now on. What has passed meanwhile is not made up for.
    Resume(ScheduleNameArgs),
    /// Creates a Run of a `RunSchedule` now, also of a suspended one.
    ///
    /// With `-o name` only the Run's kind and name are printed, as `run.run-operator.dev/NAME`.
    ///
    /// It is no tick: the schedule's times stay as they are. It belongs to the schedule, and counts for its
    /// `concurrencyPolicy` while it is active.
    Trigger(ScheduleNameArgs),
}

/// Which schedules to list.
#[derive(Debug, Args)]
pub struct ScheduleListArgs {
    /// Those of all namespaces, whatever --namespace says.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,

    /// Form of the output.
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<ListFormat>,
}

/// The schedule to change, or to create a Run of.
#[derive(Debug, Args)]
pub struct ScheduleNameArgs {
    /// Its name.
    #[arg(value_parser = schedule_name)]
    pub name: String,

    /// Form of the output.
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<ObjectFormat>,
}

/// What `why` explains, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A Run.
    Run(String),
    /// A `RunSchedule`.
    Schedule(String),
}

pub(super) fn subject(text: &str) -> Result<Subject, String> {
    match of_schedule(text) {
        Some(name) => Ok(Subject::Schedule(name.to_owned())),
        None => run_name(text).map(Subject::Run),
    }
}

/// Takes `nightly`, `schedule/nightly` and the kind as kubectl prints it.
fn schedule_name(text: &str) -> Result<String, String> {
    match of_schedule(text) {
        Some(name) => Ok(name.to_owned()),
        None if text.is_empty() => Err("the name is empty".to_owned()),
        None if text.contains('/') => {
            Err("it is not the kind of a RunSchedule; write the name alone".to_owned())
        }
        None => Ok(text.to_owned()),
    }
}

fn of_schedule(text: &str) -> Option<&str> {
    let (kind, name) = text.split_once('/')?;
    (KINDS.contains(&kind) && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Proves: K-why
    #[rstest]
    #[case("train", Some(Subject::Run("train".to_owned())))]
    #[case("run/train", Some(Subject::Run("train".to_owned())))]
    #[case("schedule/nightly", Some(Subject::Schedule("nightly".to_owned())))]
    #[case("runschedule.run-operator.dev/nightly", Some(Subject::Schedule("nightly".to_owned())))]
    #[case("schedule/", None)]
    #[case("secret/nightly", None)]
    fn a_schedule_is_told_from_a_run_by_its_kind(
        #[case] text: &str,
        #[case] expected: Option<Subject>,
    ) {
        assert_eq!(subject(text).ok(), expected);
    }

    #[test]
    fn a_schedule_is_named_with_its_kind_or_without() {
        assert_eq!(schedule_name("rsch/nightly").as_deref(), Ok("nightly"));
        assert_eq!(schedule_name("nightly").as_deref(), Ok("nightly"));
        assert!(schedule_name("").is_err());
        assert!(schedule_name("run/nightly").is_err());
    }
}
