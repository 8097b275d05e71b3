//! The Runs that have the slots of a Workspace, and those that wait for one. No object shows that: it is computed from
//! lists, by what the operator itself decides by.

use std::collections::{BTreeMap, HashMap};

use kube::Api;
use kube::api::ListParams;

use run_operator::api::workspace::RunLimits;
use run_operator::api::{
    AnyWorkspace, ClusterWorkspace, Reason, Workspace, WorkspaceKey, WorkspaceKind,
};
use run_operator::checks::{NAMED, Refused, bounded, first, pages};
use run_operator::decide::claims;
use run_operator::decide::queue::{Claim, Queues};

use crate::cluster::Cluster;
use crate::run::Run;

/// The Runs of one Workspace that count for its limits.
#[derive(Default)]
pub(crate) struct Line<'a> {
    /// The oldest first.
    active: Vec<&'a Run>,
    /// In the order in which they get slots. That of a namespace that has all it may have is not put back.
    pub(crate) waiting: Vec<&'a Run>,
}

/// Runs that were listed.
pub(crate) struct Seen {
    pub(crate) runs: Vec<Run>,
    /// Whether they are those of all namespaces.
    pub(crate) everywhere: bool,
}

impl Seen {
    /// Whether it has all Runs of a Workspace.
    fn has_all_of(&self, key: &WorkspaceKey) -> bool {
        self.everywhere || !key.namespace.is_empty()
    }

    /// How many Runs of a Workspace are active and queued, as far as they were listed.
    pub(crate) fn usage(&self, key: &WorkspaceKey, line: &Line<'_>, limits: RunLimits) -> String {
        let (active, queued) = (line.active.len(), line.waiting.len());
        let active = match limits.all {
            Some(max) => format!("{active} of {max} active (spec.maxActiveRuns)"),
            None => format!("{active} active"),
        };
        let alone = if self.has_all_of(key) {
            ""
        } else {
            ", counted in this namespace alone: the Runs of others can't be listed"
        };
        format!("{active}, {queued} queued{alone}")
    }

    fn places(&self) -> HashMap<String, String> {
        let mut lines = lines(&self.runs);
        lines.retain(|key, _| self.has_all_of(key));
        let places = lines.values().flat_map(|line| {
            let all = line.waiting.len();
            let numbered = line.waiting.iter().zip(1..);
            numbered.map(move |(run, n)| (run.uid().to_owned(), format!("{n} of {all}")))
        });
        places.collect()
    }
}

/// Lists the Runs of the namespace in force; where they are shared with others, those of all, if the user may.
pub(crate) async fn seen(cluster: &Cluster, is_shared: bool) -> Result<Seen, Refused> {
    if is_shared {
        let all: Api<Run> = Api::all(cluster.client.clone());
        if let Ok(runs) = pages(&all, ListParams::default()).await {
            return Ok(Seen {
                runs,
                everywhere: true,
            });
        }
    }
    Ok(Seen {
        runs: pages(&cluster.runs(), ListParams::default()).await?,
        everywhere: false,
    })
}

/// The active and the queued Runs of each Workspace that has any.
pub(crate) fn lines(runs: &[Run]) -> BTreeMap<WorkspaceKey, Line<'_>> {
    let mut queues = Queues::default();
    let mut lines: BTreeMap<WorkspaceKey, Line<'_>> = BTreeMap::new();
    let mut waiting = HashMap::new();
    for run in runs {
        let Some((key, claim)) = claim(run) else {
            continue;
        };
        // No slot is given before the limits are set.
        queues.claim((run.namespace(), run.uid()), &key, claim);
        let line = lines.entry(key).or_default();
        if claim == Claim::Holds {
            line.active.push(run);
        } else {
            waiting.insert(run.uid(), run);
        }
    }
    for (key, line) in &mut lines {
        let created = |run: &&Run| run.metadata.creation_timestamp.clone();
        line.active.sort_by_key(created);
        let order = queues.set(key, Some(RunLimits::default()));
        let order = order.iter().filter_map(|(_, uid)| waiting.get(&**uid));
        line.waiting = order.copied().collect();
    }
    lines
}

/// What a Run claims, by its object, and of which Workspace.
fn claim(run: &Run) -> Option<(WorkspaceKey, Claim)> {
    let Some(object) = run.whole() else {
        return Some((claims::held_by(&run.metadata)?, Claim::Holds));
    };
    if claims::holds_slot(&object) {
        return Some((claims::bound_to(&object)?, Claim::Holds));
    }
    let wants = Claim::Wants {
        priority: object.spec.priority(),
        created: claims::created(&object),
    };
    Some((waits_at(run)?, wants))
}

/// The Workspace for a slot of which a Run waits.
pub(crate) fn waits_at(run: &Run) -> Option<WorkspaceKey> {
    let waits = run.reason() == Some(Reason::Queued)
        && run.metadata.deletion_timestamp.is_none()
        && run.manager().is_none();
    if !waits {
        return None;
    }
    let workspace = run.status.as_ref()?.queued_for.as_ref()?;
    Some(WorkspaceKey::of(workspace, run.namespace()))
}

/// The places of the queued ones of these Runs, such as `3 of 12`, by uid; none where not all that wait can be listed.
/// `is_selection`: more Runs may be in their namespaces.
pub(crate) async fn places(
    cluster: &Cluster,
    listed: &Seen,
    is_selection: bool,
) -> HashMap<String, String> {
    let keys: Vec<WorkspaceKey> = listed.runs.iter().filter_map(waits_at).collect();
    if keys.is_empty() {
        return HashMap::new();
    }
    if !is_selection && keys.iter().all(|key| listed.has_all_of(key)) {
        return listed.places();
    }
    let is_shared = listed.everywhere || keys.iter().any(|key| key.namespace.is_empty());
    let seen = seen(cluster, is_shared).await;
    seen.map(|seen| seen.places()).unwrap_or_default()
}

/// What `why` tells of the queue in which a Run waits.
pub(crate) async fn told(cluster: &Cluster, run: &Run, key: &WorkspaceKey) -> Vec<String> {
    let refused = match seen(cluster, key.namespace.is_empty()).await {
        Ok(seen) => {
            // Where they can't be read, the Run's own message has them.
            let limits = limits(cluster, key).await.unwrap_or_default();
            return tell(run, key, limits, &seen);
        }
        Err(refused) => refused,
    };
    let why = match refused.code() {
        Some(401 | 403) => "you may not list the Runs".to_owned(),
        _ => refused.why(),
    };
    let unknown = "who has its slots and who is before this Run is not known";
    vec![format!("{unknown}: {why}")]
}

async fn limits(cluster: &Cluster, key: &WorkspaceKey) -> Result<RunLimits, Refused> {
    let (client, name) = (cluster.client.clone(), &key.name);
    Ok(match key.kind {
        WorkspaceKind::Workspace => {
            let api: Api<Workspace> = Api::namespaced(client, &key.namespace);
            bounded(api.get(name)).await?.limits()
        }
        WorkspaceKind::ClusterWorkspace => {
            let api: Api<ClusterWorkspace> = Api::all(client);
            bounded(api.get(name)).await?.limits()
        }
    })
}

fn tell(run: &Run, key: &WorkspaceKey, limits: RunLimits, seen: &Seen) -> Vec<String> {
    let line = lines(&seen.runs).remove(key).unwrap_or_default();
    let mut says = vec![seen.usage(key, &line, limits)];
    let namespace = run.namespace();
    if let Some(max) = limits.per_namespace {
        let active = line.active.iter();
        let own = active.filter(|other| other.namespace() == namespace);
        let (own, limit) = (own.count(), "spec.maxActiveRunsPerNamespace");
        says.push(format!("{own} of {max} active in {namespace} ({limit})"));
    }
    if [limits.all, limits.per_namespace].contains(&Some(0)) {
        says.push("a limit of 0 holds every Run until it is raised".to_owned());
    }
    let mut waiting = line.waiting.iter();
    let place = waiting.position(|other| other.uid() == run.uid());
    says.extend(place.map(|before| format!("this Run is number {} of those queued", before + 1)));
    let named = |run: &&Run| key.naming(run.namespace(), run.name());
    let active = first(NAMED, line.active.iter().map(named));
    let holders = format!("active, the oldest first: {active}");
    let holders = (!line.active.is_empty()).then_some(holders);
    [says.join("; ")].into_iter().chain(holders).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::{Value, json};

    use run_operator::api::WorkspaceRef;

    use super::*;
    use crate::fixtures::{active, at, pending};

    /// A Run `namespace/name` with this spec, created at this second.
    fn made(mut run: Run, name: &str, second: i64, mut spec: Value) -> Run {
        let (namespace, own) = name.split_once('/').unwrap();
        run.metadata.namespace = Some(namespace.to_owned());
        run.metadata.name = Some(own.to_owned());
        run.metadata.uid = Some(name.to_owned());
        run.metadata.creation_timestamp = Some(Time(at(second)));
        spec["workload"] = json!({"image": "i"});
        run.spec = Some(serde_json::from_str(&spec.to_string()).unwrap());
        run
    }

    fn shared(priority: i32) -> Value {
        json!({"workspaceRef": {"kind": "ClusterWorkspace", "name": "shared"}, "priority": priority})
    }

    fn queued(name: &str, second: i64, priority: i32) -> Run {
        let mut run = made(pending(Reason::Queued), name, second, shared(priority));
        let status = run.status.as_mut().unwrap();
        status.queued_for = Some(WorkspaceRef::shared("shared".to_owned()));
        run
    }

    fn holder(name: &str, second: i64) -> Run {
        made(active(), name, second, shared(0))
    }

    fn key() -> WorkspaceKey {
        WorkspaceKey::of(&WorkspaceRef::shared("shared".to_owned()), "a")
    }

    /// Two are active, and four wait, of which `a/late` is the third.
    fn seen(everywhere: bool) -> Seen {
        let runs = vec![
            holder("b/young", 2),
            holder("a/old", 1),
            queued("a/late", 4, 0),
            queued("a/early", 3, 0),
            queued("b/other", 5, 0),
            queued("b/first", 9, 7),
        ];
        Seen { runs, everywhere }
    }

    fn limits(all: Option<usize>, per_namespace: Option<usize>) -> RunLimits {
        RunLimits { all, per_namespace }
    }

    #[test]
    fn slots_go_by_priority_then_to_who_has_fewest_then_by_age() {
        let seen = seen(true);
        let lines = lines(&seen.runs);
        let uids = |runs: &[&Run]| {
            runs.iter()
                .map(|run| run.uid().to_owned())
                .collect::<Vec<_>>()
        };
        let line = &lines[&key()];
        assert_eq!(lines.len(), 1);
        assert_eq!(uids(&line.active), ["a/old", "b/young"]);
        let order = ["b/first", "a/early", "a/late", "b/other"];
        assert_eq!(uids(&line.waiting), order);
    }

    #[test]
    fn who_can_not_get_a_slot_does_not_wait() {
        let mut deleted = queued("a/run", 0, 0);
        deleted.metadata.deletion_timestamp = Some(Time(at(0)));
        let mut spec = shared(0);
        spec["managedBy"] = "example.com/queue".into();
        let others = made(pending(Reason::Queued), "a/run", 0, spec);
        let retries = made(pending(Reason::Retrying), "a/run", 0, shared(0));
        for run in [deleted, others, retries] {
            assert_eq!(waits_at(&run), None);
        }
    }

    #[test]
    fn places_are_told_where_all_that_wait_were_listed() {
        let places = seen(true).places();
        assert_eq!(places.len(), 4);
        assert_eq!(places["a/late"], "3 of 4");
        assert_eq!(seen(false).places(), HashMap::new());
    }

    /// Proves: K-why
    #[test]
    fn a_queued_run_is_told_its_place_and_who_has_the_slots() {
        let run = queued("a/late", 4, 0);
        let told = |limits, everywhere| tell(&run, &key(), limits, &seen(everywhere));
        let expected = [
            "2 of 2 active (spec.maxActiveRuns), 4 queued; this Run is number 3 of those queued",
            "active, the oldest first: a/old, b/young",
        ];
        assert_eq!(told(limits(Some(2), None), true), expected);
        let each = told(limits(None, Some(1)), true);
        let own = "2 active, 4 queued; 1 of 1 active in a (spec.maxActiveRunsPerNamespace);";
        assert!(each[0].starts_with(own), "{each:?}");
        let held = told(limits(Some(0), None), true);
        assert!(
            held[0].contains("; a limit of 0 holds every Run"),
            "{held:?}"
        );
        let alone = told(limits(Some(9), None), false);
        assert!(alone[0].contains("in this namespace alone"), "{alone:?}");
    }
}
