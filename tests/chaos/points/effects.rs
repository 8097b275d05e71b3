//! The operator's effects as the other sides saw them: the API server's audit log and the service's own
//! record. The points are compared with them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::trial::Trial;

/// The number of effects by their point.
pub(super) type Counts = BTreeMap<String, usize>;

/// Counts by the lines of a trace, without the events of streams, which are no requests.
pub(super) fn passed(trace: &[String]) -> Counts {
    let names = trace.iter().filter_map(|line| line.split(' ').next());
    count(
        names
            .filter(|name| *name != "stream.event")
            .map(str::to_owned),
    )
}

/// Counts by the records of both servers. None where the cluster is not ours, and has no audit log to be
/// read.
pub(super) async fn seen(trial: &Trial) -> Option<Counts> {
    let log = trial.world.control_plane.audit_log()?;
    let text = std::fs::read_to_string(log).unwrap();
    let writes = text
        .lines()
        .filter(|line| line.contains(&trial.world.namespace))
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|entry| entry["objectRef"]["namespace"] == trial.world.namespace.as_str())
        .filter(|entry| entry["stage"] == "ResponseComplete")
        .filter_map(|entry| write(&entry));
    let mut all: Vec<String> = writes.collect();
    for (operation, name) in [
        ("getVersion", "service.version"),
        ("getWorkspace", "service.workspace"),
        ("createRun", "service.create"),
        ("getRun", "service.get"),
        ("cancelRun", "service.cancel"),
        ("streamEvents", "service.stream"),
    ] {
        let calls = trial.world.service.requests(operation).await.len();
        all.extend(std::iter::repeat_n(name.to_owned(), calls));
    }
    Some(count(all.into_iter()))
}

/// The point of a write by the operator. The audit log has no bodies: writes that differ only in them have
/// one name.
fn write(entry: &Value) -> Option<String> {
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let agent = text(&entry["userAgent"]);
    let verb = text(&entry["verb"]);
    let by_tests = agent.starts_with("run-operator-tests");
    let read = ["get", "list", "watch"].contains(&verb.as_str());
    if !agent.starts_with("run-operator/") || by_tests || read {
        return None;
    }
    let object = &entry["objectRef"];
    let resource = text(&object["resource"]);
    let (subresource, delete) = (text(&object["subresource"]), verb == "delete");
    let kind = resource.trim_end_matches('s');
    Some(match (kind, subresource.as_str()) {
        ("event", _) => "kube.event".to_owned(),
        (kind, "") if delete => format!("kube.{kind}.delete"),
        (kind, "") => format!("kube.{kind}"),
        (kind, subresource) => format!("kube.{kind}.{subresource}"),
    })
}

/// The same without the distinctions that the audit log lacks.
pub(super) fn coarse(counts: Counts) -> Counts {
    let mut coarse = Counts::new();
    for (name, times) in counts {
        let stem = name.rsplit_once('.').map_or("", |(stem, _)| stem);
        let last = name.rsplit('.').next().unwrap_or_default();
        let patch = ["intent", "release", "finalizer"].contains(&last);
        let name = if patch || stem == "kube.lease" {
            stem.to_owned()
        } else {
            name
        };
        *coarse.entry(name).or_default() += times;
    }
    coarse
}

fn count(names: impl Iterator<Item = String>) -> Counts {
    let mut counts = Counts::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}
