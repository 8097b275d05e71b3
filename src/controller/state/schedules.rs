//! What this process knows of each RunSchedule: its Runs by the watch and its own writes, and what became of those.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use jiff::Timestamp;
use kube::Resource;

use crate::api::Run;
use crate::controller::apiserver::{Maybe, Scope};
use crate::decide::schedule::{Memory, OwnedRun, owner};
use crate::util::lock;

/// Runs of which it is remembered that they no longer exist: more than are deleted while a write is answered.
const MOST_REMOVED: usize = 1024;

/// Namespace and name of a schedule.
pub type Name = (String, String);

#[derive(Default)]
pub struct Schedules(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// By uid.
    schedules: HashMap<String, Entry>,
    /// The schedule's uid, by that of a Run.
    owners: HashMap<String, String>,
    /// uids of Runs that no longer exist, the latest last: the answer to a write or a read may come after the watch
    /// has shown the deletion.
    removed: VecDeque<String>,
}

#[derive(Default)]
struct Entry {
    /// Empty until the schedule or one of its Runs says it.
    name: Name,
    /// By uid.
    runs: HashMap<String, OwnedRun>,
    memory: Memory,
    /// The time by the wall clock at which it must be decided again.
    due: Option<Timestamp>,
    failures: u32,
    /// The schedule no longer exists; the entry goes with the last of its Runs.
    gone: bool,
}

impl Table {
    fn entry(&mut self, schedule: &str) -> &mut Entry {
        self.schedules.entry(schedule.to_owned()).or_default()
    }

    fn take_out(&mut self, run: &str) -> Option<Name> {
        let schedule = self.owners.remove(run)?;
        let entry = self.schedules.get_mut(&schedule)?;
        entry.runs.remove(run);
        let name = entry.name.clone();
        self.forget_if_over(&schedule);
        Some(name)
    }

    fn forget_if_over(&mut self, schedule: &str) {
        let entry = self.schedules.get(schedule);
        if entry.is_some_and(|entry| entry.gone && entry.runs.is_empty()) {
            self.schedules.remove(schedule);
        }
    }

    fn known(&mut self, run: &str) -> Option<&mut OwnedRun> {
        let schedule = self.owners.get(run)?;
        self.schedules.get_mut(schedule)?.runs.get_mut(run)
    }

    /// Takes in a Run. Returns its schedule, if one owns it and anything else than its version has changed.
    fn put(&mut self, run: &Maybe<Run>) -> Option<Name> {
        let meta = run.meta();
        let uid = meta.uid.as_deref()?;
        let Some(schedule) = owner(meta) else {
            // A person may have taken the owner off.
            return self.take_out(uid);
        };
        if self.owners.get(uid).is_some_and(|old| *old != schedule.uid) {
            self.take_out(uid);
        }
        let mut new = OwnedRun::of(meta, run.good().map(|run| &**run))?;
        let namespace = meta.namespace.clone()?;
        self.owners.insert(new.uid.clone(), schedule.uid.clone());
        let entry = self.entry(&schedule.uid);
        // The reference's name may be wrong: nothing checks it against the uid.
        if entry.name.1.is_empty() {
            entry.name = (namespace, schedule.name.clone());
        }
        let name = entry.name.clone();
        let old = entry.runs.get(&new.uid);
        // Of one that can't be decoded, only this process knows.
        new.cancelling |= run.good().is_none() && old.is_some_and(|old| old.cancelling);
        let same = old.is_some_and(|old| {
            let version = new.version.clone();
            OwnedRun {
                version,
                ..old.clone()
            } == new
        });
        entry.runs.insert(new.uid.clone(), new);
        (!same).then_some(name)
    }
}

impl Schedules {
    /// Takes in a Run that the watch shows. Returns its schedule, if one owns it, or did, and has to look at it.
    pub fn follow(&self, run: &Maybe<Run>) -> Option<Name> {
        lock(&self.0).put(run)
    }

    /// Takes in a Run that the answer to a write or a read shows. What the watch has shown is newer, or follows.
    pub fn answered(&self, run: &Maybe<Run>) {
        let mut table = lock(&self.0);
        let uid = run.meta().uid.clone().unwrap_or_default();
        if !table.owners.contains_key(&uid) && !table.removed.contains(&uid) {
            table.put(run);
        }
    }

    /// Forgets a Run that no longer exists. Returns its schedule, if one owned it.
    pub fn remove(&self, run: &str) -> Option<Name> {
        let mut table = lock(&self.0);
        let schedule = table.take_out(run)?;
        table.removed.push_back(run.to_owned());
        if table.removed.len() > MOST_REMOVED {
            table.removed.pop_front();
        }
        Some(schedule)
    }

    /// Takes out the Runs of a scope that its list lacks: those that only an answer has shown are in no event.
    pub fn listed(&self, scope: &Scope, exists: impl Fn(&str) -> bool) -> Vec<Name> {
        let mut table = lock(&self.0);
        let lacks = |entry: &Entry| {
            let covered = scope.covers(&entry.name.0);
            let runs = entry.runs.keys().filter(|uid| covered && !exists(uid));
            runs.cloned().collect::<Vec<_>>()
        };
        let lacking: Vec<_> = table.schedules.values().flat_map(lacks).collect();
        let each = lacking.iter().filter_map(|uid| table.take_out(uid));
        each.collect()
    }

    /// A write that cancels it was answered; the watch has yet to show it.
    pub fn cancelling(&self, run: &str) {
        if let Some(known) = lock(&self.0).known(run) {
            known.cancelling = true;
        }
    }

    /// Its deletion was answered; the watch has yet to show it.
    pub fn deleting(&self, run: &str) {
        if let Some(known) = lock(&self.0).known(run) {
            known.deleting = true;
        }
    }

    pub fn runs(&self, schedule: &str) -> Vec<OwnedRun> {
        let table = lock(&self.0);
        let entry = table.schedules.get(schedule);
        entry.map_or_else(Vec::new, |entry| entry.runs.values().cloned().collect())
    }

    pub fn memory(&self, schedule: &str) -> Memory {
        let table = lock(&self.0);
        let entry = table.schedules.get(schedule);
        entry.map_or_else(Memory::default, |entry| entry.memory.clone())
    }

    pub fn remember(&self, schedule: &str, memory: Memory) {
        lock(&self.0).entry(schedule).memory = memory;
    }

    /// Counts one more failure in a row. Returns their number.
    pub fn failed(&self, schedule: &str) -> u32 {
        let mut table = lock(&self.0);
        let failures = &mut table.entry(schedule).failures;
        *failures = failures.saturating_add(1);
        *failures
    }

    pub fn failures(&self, schedule: &str) -> u32 {
        let table = lock(&self.0);
        let entry = table.schedules.get(schedule);
        entry.map_or(0, |entry| entry.failures)
    }

    /// What was tried has been carried out.
    pub fn succeeded(&self, schedule: &str) {
        lock(&self.0).entry(schedule).failures = 0;
    }

    pub fn set_due(&self, schedule: &str, name: Name, due: Option<Timestamp>) {
        let mut table = lock(&self.0);
        let entry = table.entry(schedule);
        entry.name = name;
        entry.due = due;
    }

    /// The schedules that are due by `wall`, each once.
    pub fn take_due(&self, wall: Timestamp) -> Vec<Name> {
        let mut table = lock(&self.0);
        let due = table.schedules.values_mut().filter_map(|entry| {
            entry.due.take_if(|at| *at <= wall)?;
            Some(entry.name.clone())
        });
        due.collect()
    }

    /// Forgets a schedule that no longer exists, once it has no Runs.
    pub fn forget(&self, schedule: &str) {
        let mut table = lock(&self.0);
        if let Some(entry) = table.schedules.get_mut(schedule) {
            entry.gone = true;
        }
        table.forget_if_over(schedule);
    }

    /// Forgets the schedules that a list lacks, by uid and name, and that have no Runs.
    pub fn forget_all_but(&self, exists: impl Fn(&str, &Name) -> bool) {
        let mut table = lock(&self.0);
        table
            .schedules
            .retain(|uid, entry| !entry.runs.is_empty() || exists(uid, &entry.name));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn name() -> Name {
        ("team".to_owned(), "nightly".to_owned())
    }

    /// A reference by another name enqueues no other schedule.
    /// Proves: P-schedule
    #[test]
    fn a_schedule_has_its_own_name() {
        let schedules = Schedules::default();
        let own = ("team".to_owned(), "weekly".to_owned());
        schedules.set_due("s", own.clone(), None);
        assert_eq!(schedules.follow(&owned()), Some(own.clone()));
        schedules.set_due("s", own.clone(), Some(Timestamp::MIN));
        assert_eq!(schedules.take_due(Timestamp::MAX), [own]);
    }

    /// One that this schedule owns, or none.
    fn run(owner: Option<&str>, version: &str, spec: &Value) -> Maybe<Run> {
        let owners = owner.map(|uid| {
            json!([{
                "apiVersion": "run-operator.dev/v1alpha1", "kind": "RunSchedule", "name": "nightly",
                "uid": uid, "controller": true,
            }])
        });
        let mut object = json!({
            "metadata": {
                "name": "nightly-1", "namespace": "team", "uid": "r", "resourceVersion": version,
                "ownerReferences": owners,
            },
            "spec": {"workload": {"image": "i"}},
        });
        object["spec"]["cancel"] = spec["cancel"].clone();
        Maybe::Good(Arc::new(serde_json::from_value(object).unwrap()))
    }

    fn owned() -> Maybe<Run> {
        run(Some("s"), "1", &json!({}))
    }

    /// Proves: P-schedule
    #[test]
    fn a_run_that_was_removed_does_not_come_back_by_a_late_answer() {
        let schedules = Schedules::default();
        assert_eq!(schedules.follow(&owned()), Some(name()));
        assert_eq!(schedules.remove("r"), Some(name()));
        schedules.answered(&owned());
        assert!(schedules.runs("s").is_empty());
    }

    /// Proves: P-schedule-policy
    #[test]
    fn an_answer_does_not_replace_what_the_watch_has_shown() {
        let schedules = Schedules::default();
        let newer = run(Some("s"), "2", &json!({"cancel": true}));
        schedules.follow(&newer);
        schedules.answered(&owned());
        assert!(schedules.runs("s")[0].cancelling);
        let same = run(Some("s"), "3", &json!({"cancel": true}));
        assert_eq!(schedules.follow(&same), None, "only its version is another");
    }

    /// Proves: P-schedule-policy
    #[test]
    fn a_run_that_only_an_answer_has_shown_goes_with_a_list_that_lacks_it() {
        let schedules = Schedules::default();
        schedules.answered(&owned());
        let other = Scope::Namespace("other".to_owned());
        assert_eq!(schedules.listed(&other, |_| false), []);
        assert_eq!(schedules.listed(&Scope::All, |_| true), []);
        assert_eq!(schedules.listed(&Scope::All, |_| false), [name()]);
        assert!(schedules.runs("s").is_empty());
    }

    /// Proves: P-schedule
    #[rstest]
    #[case::runs_first(true)]
    #[case::runs_last(false)]
    fn a_schedule_that_is_deleted_is_forgotten_with_its_last_run(#[case] runs_first: bool) {
        let schedules = Schedules::default();
        schedules.follow(&owned());
        schedules.set_due("s", name(), Some(Timestamp::MIN));
        if runs_first {
            schedules.remove("r");
        }
        schedules.forget("s");
        assert_eq!(schedules.runs("s").len(), usize::from(!runs_first));
        schedules.remove("r");
        assert_eq!(schedules.take_due(Timestamp::MAX), []);
    }

    /// Proves: P-schedule
    #[test]
    fn a_run_belongs_to_the_schedule_that_owns_it_now() {
        let schedules = Schedules::default();
        schedules.follow(&owned());
        schedules.follow(&run(Some("other"), "2", &json!({})));
        assert!(schedules.runs("s").is_empty());
        assert_eq!(schedules.runs("other").len(), 1);
        schedules.follow(&run(None, "3", &json!({})));
        assert!(schedules.runs("other").is_empty());
        schedules.follow(&owned());
        assert_eq!(schedules.runs("s").len(), 1);
    }
}
