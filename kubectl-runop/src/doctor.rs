//! `doctor`: what prevents Runs. Beside what `helm test` asks: whether a Run would be accepted, whether another group has
//! our names, which Runs wait for a person, and whether the operator's permissions and its allow-list fit.

mod schedules;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::authorization::v1::LocalSubjectAccessReview;
use k8s_openapi::api::core::v1::Event;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use run_operator::api::workspace::RunLimits;
use run_operator::api::{self, EventReason, Reason, WorkspaceKey, WorkspaceSpec, names};
use run_operator::checks::{
    Check, Deployed, Finding, NO_ANSWER, Refused, Target, Verdict, api_server, at_work, bounded,
    is_good, pages, report, workspaces,
};
use run_operator::service::{AllowList, BaseUrl};

use crate::args::{DoctorArgs, OperatorArgs};
use crate::cluster::Cluster;
use crate::contract;
use crate::error::{End, ToolError};
use crate::explain::{Severity, severity};
use crate::print::{self, progress};
use crate::queue::{self, Line};
use crate::run::Run;

/// Name of the Run that is applied and not stored, and its field manager.
const NAME: &str = "run-operator-doctor";
const PLURALS: [&str; 5] = [
    "runs",
    "workspaces",
    "clusterworkspaces",
    "runschedules",
    "runtemplates",
];

const RUN_ACCEPTED: Check = Check::new("cluster.run", "a Run would be accepted");
const NAMES_ARE_OURS: Check = Check::new("cluster.names", "the names runs and workspaces are ours");
const LIMIT_FITS: Check = Check::new("workspaces.limits", "the limit of active Runs fits");
const NONE_STALLED: Check = Check::new("runs.stalled", "no Run waits for a person");
const STATES_MAPPED: Check = Check::new("runs.states", "each run's state is mapped");
const WRITES_TAKEN: Check = Check::new("runs.writes", "the operator's writes are taken");
const PERMISSIONS: Check = Check::new("operator.permissions", "the operator may do its work");
const ALLOW_LIST: Check = Check::new("operator.allowList", "the base URLs are allowed");
const SERVICE: Check = Check::new("service", "the service answers");

/// The group, the resource, the verbs.
type Needed = (&'static str, &'static str, &'static [&'static str]);

/// What the operator does in each namespace that it serves. The Secrets that a Workspace names are asked for by name.
const NEEDED: [Needed; 5] = [
    (
        names::GROUP,
        "runs",
        &["list", "watch", "patch", "update", "delete"],
    ),
    (names::GROUP, "runs/status", &["patch"]),
    (
        names::GROUP,
        "workspaces",
        &["list", "watch", "patch", "update"],
    ),
    (names::GROUP, "workspaces/status", &["patch"]),
    ("", "events", &["create"]),
];

/// What was found, and which Workspaces take Runs.
#[derive(Default)]
pub(crate) struct Diagnosis {
    findings: Vec<Finding>,
    taking: Vec<String>,
    /// The service's URL in the operator's Deployment.
    base_url: Option<String>,
}

impl Diagnosis {
    /// One document.
    pub(crate) fn document(&self) -> Value {
        let (good, taking) = (is_good(&self.findings), &self.taking);
        json!({"good": good, "taking": taking, "checks": self.findings})
    }
}

pub(crate) async fn run(cluster: &Cluster, args: &DoctorArgs) -> Result<End, ToolError> {
    let target = args.base_url.as_deref();
    let target = target.map(|base_url| Target::new("--base-url", base_url, &(&args.trial).into()));
    let target = target.transpose()?;
    let mut diagnosis = in_cluster(cluster, &args.operator, !args.read_only).await;
    if let Some(target) = &target {
        let (findings, _) = contract::version(target).await;
        diagnosis.findings.extend(findings);
    } else {
        // What the operator's Pod reaches may be out of reach for this machine.
        let operators = diagnosis.base_url.as_ref();
        let operators = operators.map(|url| format!("; the operator's is {url}"));
        let why = format!("there is no --base-url{}", operators.unwrap_or_default());
        diagnosis.findings.push(SERVICE.not_tried(&why));
    }
    let text = || print::verdicts(&report(&diagnosis.findings, &diagnosis.taking));
    print::report(args.output, text, &diagnosis.document())?;
    Ok(End::of_checks(is_good(&diagnosis.findings)))
}

/// The findings of the API server. Without an answer of it nothing more is tried; without `apply` no Run is.
pub(crate) async fn in_cluster(
    cluster: &Cluster,
    operator: &OperatorArgs,
    apply: bool,
) -> Diagnosis {
    let Cluster {
        client, namespace, ..
    } = cluster;
    progress("Asking the API server");
    let mut findings: Vec<Finding> = api_server(client).await.into();
    if findings[0].verdict != Verdict::Ok {
        let rest = [
            RUN_ACCEPTED,
            NAMES_ARE_OURS,
            NONE_STALLED,
            STATES_MAPPED,
            WRITES_TAKEN,
            schedules::READY,
            PERMISSIONS,
            ALLOW_LIST,
        ];
        findings.extend(rest.map(|check| check.not_tried(NO_ANSWER)));
        return Diagnosis {
            findings,
            ..Diagnosis::default()
        };
    }
    findings.push(match (findings[2].verdict, apply) {
        (Verdict::Ok, true) => dry_run(client, namespace).await,
        (Verdict::Ok, false) => RUN_ACCEPTED.not_tried("--read-only applies none"),
        _ => RUN_ACCEPTED.not_tried("the CRDs come first"),
    });
    findings.push(other_groups(client).await);
    progress("Reading the operator's Deployment and the Workspaces");
    let (place, name) = (&operator.operator_namespace, &operator.operator_name);
    let deployed = Deployed::read(client, place, name).await;
    let known = deployed.as_ref().ok().and_then(Option::as_ref);
    let seen = workspaces(client, namespace, known, !apply).await;
    findings.extend(seen.findings);
    findings.extend(limits(cluster, &seen.limited).await);
    progress("Reading Runs, Events and schedules");
    findings.extend(of_runs(cluster).await);
    findings.push(refused_writes(cluster).await);
    findings.push(schedules::ready(cluster).await);
    findings.push(at_work(client, place, name).await);
    let mut base_url = None;
    match deployed {
        Ok(Some(deployed)) => {
            progress("Asking for the operator's permissions");
            base_url = deployed.values("--base-url").into_iter().next();
            findings.push(permissions(cluster, place, &deployed, &seen.specs).await);
            findings.push(allow_list(&deployed, &seen.specs));
        }
        Ok(None) => {
            let why = format!("there is no Deployment {place}/{name}");
            findings.extend([PERMISSIONS, ALLOW_LIST].map(|check| check.not_tried(&why)));
        }
        Err(refused) => {
            let what = format!("read the Deployment {place}/{name}");
            findings.extend([PERMISSIONS, ALLOW_LIST].map(|check| check.unread(&refused, &what)));
        }
    }
    Diagnosis {
        findings,
        taking: seen.taking,
        base_url,
    }
}

/// Checks admission, validation and permissions as for a real Run; nothing is stored.
async fn dry_run(client: &Client, namespace: &str) -> Finding {
    let kind = ApiResource::erase::<api::Run>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let run = json!({
        "apiVersion": format!("{}/{}", names::GROUP, names::VERSION), "kind": "Run",
        "metadata": {"name": NAME},
        "spec": {"suspend": true, "workload": {"image": NAME}},
    });
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::apply(NAME)
    };
    let Err(refused) = bounded(api.patch(NAME, &params, &Patch::Apply(run))).await else {
        return RUN_ACCEPTED.ok(format!("In the namespace {namespace}, by a dry run."));
    };
    let todo = match refused.code() {
        Some(403) => {
            "Applying a Run needs the permissions create and patch on runs; or an admission policy denies it."
        }
        Some(404) => "Create the namespace, or name another with --namespace.",
        Some(_) => "The API server refuses the Run: its message has the reason.",
        None => "Check the kubeconfig, or the network.",
    };
    RUN_ACCEPTED.fail(format!("{}.", refused.why()), todo)
}

/// Whether other API groups have the names of our kinds: with them `kubectl get runs` may mean something else. From the
/// discovery document that every authenticated user may read.
async fn other_groups(client: &Client) -> Finding {
    let groups = match bounded(client.list_api_groups_aggregated()).await {
        Ok(groups) => groups,
        Err(refused) => return NAMES_ARE_OURS.not_tried(&refused.why()),
    };
    let mut others = BTreeSet::new();
    for group in groups.items {
        let name = group.metadata.and_then(|meta| meta.name);
        let name = name.filter(|name| name != names::GROUP);
        let resources = group.versions.iter().flat_map(|version| &version.resources);
        let plurals = resources.filter_map(|resource| resource.resource.as_deref());
        let plurals = plurals.filter(|plural| PLURALS.contains(plural));
        others.extend(plurals.filter_map(|plural| Some(format!("{plural}.{}", name.as_ref()?))));
    }
    if others.is_empty() {
        return NAMES_ARE_OURS.ok("No other API group has them.");
    }
    let others: Vec<String> = others.into_iter().collect();
    let todo = "Name the group in commands, as in `kubectl get runs.run-operator.dev`.";
    let saw = format!("There are {}, too.", others.join(" and "));
    NAMES_ARE_OURS.finding(Verdict::Warn, saw, Some(todo))
}

/// A finding for each Workspace that limits its active Runs.
async fn limits(cluster: &Cluster, limited: &[(WorkspaceKey, RunLimits)]) -> Vec<Finding> {
    if limited.is_empty() {
        return Vec::new();
    }
    let is_shared = limited.iter().any(|(key, _)| key.namespace.is_empty());
    let seen = match queue::seen(cluster, is_shared).await {
        Ok(seen) => seen,
        Err(refused) => {
            let what = format!("list the Runs of {}", cluster.namespace);
            return vec![LIMIT_FITS.unread(&refused, &what)];
        }
    };
    let (lines, none) = (queue::lines(&seen.runs), Line::default());
    let finding = |(key, limits): &(WorkspaceKey, RunLimits)| {
        let line = lines.get(key).unwrap_or(&none);
        let (kind, name, usage) = (key.kind, &key.name, seen.usage(key, line, *limits));
        let each = limits.per_namespace;
        let each = each.map(|max| format!("; at most {max} of a namespace"));
        let saw = format!("{kind} {name}: {usage}{}.", each.unwrap_or_default());
        match misfit(*limits, line.waiting.len()) {
            None => LIMIT_FITS.ok(saw),
            todo => LIMIT_FITS.finding(Verdict::Warn, saw, todo),
        }
    };
    limited.iter().map(finding).collect()
}

/// What to do about limits that hold every Run, or one that has no effect.
fn misfit(limits: RunLimits, queued: usize) -> Option<&'static str> {
    let RunLimits { all, per_namespace } = limits;
    if queued > 0 && [all, per_namespace].contains(&Some(0)) {
        Some("A limit of 0 holds every Run: raise it.")
    } else if per_namespace.zip(all).is_some_and(|(each, all)| each > all) {
        Some(
            "spec.maxActiveRunsPerNamespace is above spec.maxActiveRuns and has no effect: lower it.",
        )
    } else {
        None
    }
}

async fn of_runs(cluster: &Cluster) -> [Finding; 2] {
    let namespace = &cluster.namespace;
    match pages(&cluster.runs(), ListParams::default()).await {
        Ok(runs) => [stalled(&runs, namespace), not_mapped(&runs, namespace)],
        Err(refused) => {
            let what = format!("list the Runs of {namespace}");
            [NONE_STALLED, STATES_MAPPED].map(|check| check.unread(&refused, &what))
        }
    }
}

fn not_mapped(runs: &[Run], namespace: &str) -> Finding {
    let shows = |run: &&Run| run.reason() == Some(Reason::StateNotMapped);
    let states = runs.iter().filter(shows);
    let states = states.filter_map(|run| run.status.as_ref()?.state.as_deref());
    let states: BTreeSet<&str> = states.collect();
    if states.is_empty() {
        return STATES_MAPPED.ok(format!("In the namespace {namespace}."));
    }
    let states: Vec<&str> = states.into_iter().collect();
    let saw = format!("The operator's contract file lacks: {}.", states.join(", "));
    let todo = "Add them to the contract file, in the lists of their meaning, and restart the operator: an end among them is not noticed.";
    STATES_MAPPED.finding(Verdict::Warn, saw, Some(todo))
}

/// Whether the API server refused what the operator wrote, by the Events of the last hour.
async fn refused_writes(cluster: &Cluster) -> Finding {
    let namespace = &cluster.namespace;
    let api: Api<Event> = Api::namespaced(cluster.client.clone(), namespace);
    let refused = ListParams::default().fields(&format!("reason={}", EventReason::WriteRefused));
    let events: Vec<Event> = match pages(&api, refused).await {
        Ok(events) => events,
        Err(refused) => return WRITES_TAKEN.unread(&refused, "list Events"),
    };
    let Some(latest) = events
        .iter()
        .max_by_key(|event| event.last_timestamp.clone())
    else {
        return WRITES_TAKEN.ok(format!("By the Events of the last hour in {namespace}."));
    };
    let object = &latest.involved_object;
    let of = |part: &Option<String>| part.clone().unwrap_or_default();
    let name = format!("{} {}", of(&object.kind), of(&object.name));
    let message = latest.message.as_deref().unwrap_or_default();
    let times = events.len();
    let saw = format!("Refused {times} times in the last hour, at last for {name}: {message}");
    let todo = "Let the operator's ServiceAccount write Runs, Workspaces and their status.";
    WRITES_TAKEN.finding(Verdict::Warn, saw, Some(todo))
}

/// The Runs that wait for a person, by reason.
fn stalled(runs: &[Run], namespace: &str) -> Finding {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let waiting = runs
        .iter()
        .filter(|run| severity(run) == Severity::NeedsPerson);
    for condition in waiting.clone().filter_map(Run::condition) {
        *reasons.entry(condition.reason.clone()).or_default() += 1;
    }
    let (all, waiting) = (runs.len(), waiting.count());
    if waiting == 0 {
        return NONE_STALLED.ok(format!("Of {all} in the namespace {namespace}."));
    }
    let reasons = reasons.iter();
    let reasons: Vec<String> = reasons.map(|(reason, n)| format!("{reason} {n}")).collect();
    let reasons = reasons.join(", ");
    let todo = "`kubectl runop list` shows them first, and `kubectl runop why NAME` what to do.";
    let saw = format!("{waiting} of {all} in the namespace {namespace} do: {reasons}.");
    NONE_STALLED.finding(Verdict::Warn, saw, Some(todo))
}

/// Whether the operator's service account may do what the operator does in the namespace, and read the Secrets that the
/// Workspaces name. The API server is asked; nothing is tried.
async fn permissions(
    cluster: &Cluster,
    place: &str,
    deployed: &Deployed,
    specs: &[WorkspaceSpec],
) -> Finding {
    let namespace = &cluster.namespace;
    let user = format!("system:serviceaccount:{place}:{}", deployed.account);
    let served = deployed.has("--schedules");
    let of_schedules = schedules::NEEDED.iter().filter(|_| served);
    let needed = NEEDED.iter().chain(of_schedules);
    let needed = needed.flat_map(|(group, resource, verbs)| {
        let of_verb = |verb: &&'static str| (*group, *resource, *verb, None);
        verbs.iter().map(of_verb)
    });
    let tokens = specs.iter().map(|spec| spec.token_secret().0);
    let bundles = specs.iter().filter_map(|spec| Some(spec.ca_secret()?.0));
    let secrets: BTreeSet<&str> = tokens.chain(bundles).collect();
    let secrets = secrets.into_iter();
    let secrets = secrets.map(|name| ("", "secrets", "get", Some(name)));
    let mut missing = Vec::new();
    let mut asked = 0;
    for (group, resource, verb, name) in needed.chain(secrets) {
        let (kind, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = json!({
            "namespace": namespace, "group": group, "resource": kind, "subresource": subresource,
            "verb": verb, "name": name,
        });
        match is_allowed(cluster, &user, place, &attributes).await {
            Ok(true) => {}
            Ok(false) => {
                let name = name.map(|name| format!(" {name}")).unwrap_or_default();
                missing.push(format!("{verb} {resource}{name}"));
            }
            Err(refused) => {
                return PERMISSIONS.unread(&refused, "ask for the permissions of others");
            }
        }
        asked += 1;
    }
    if missing.is_empty() {
        let has = format!("has the {asked} permissions that it needs in the namespace {namespace}");
        return PERMISSIONS.ok(format!("{user} {has}."));
    }
    let missing = missing.join(", ");
    PERMISSIONS.fail(
        format!("In the namespace {namespace} {user} may not: {missing}."),
        "Compare with the chart's roles; watchNamespaces and tokenSecretNames decide what they contain.",
    )
}

async fn is_allowed(
    cluster: &Cluster,
    user: &str,
    place: &str,
    attributes: &Value,
) -> Result<bool, Refused> {
    let of_place = format!("system:serviceaccounts:{place}");
    let groups = ["system:serviceaccounts", &of_place, "system:authenticated"];
    let review = json!({
        "metadata": {"namespace": cluster.namespace},
        "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
    });
    let review: LocalSubjectAccessReview = serde_json::from_value(review)
        .map_err(|error| Refused::from(kube::Error::SerdeError(error)))?;
    let api: Api<LocalSubjectAccessReview> =
        Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let answer = bounded(api.create(&PostParams::default(), &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Whether the operator's allow-list has the base URLs that the Workspaces name themselves.
fn allow_list(deployed: &Deployed, specs: &[WorkspaceSpec]) -> Finding {
    let mut all = deployed.values("--base-url");
    all.extend(deployed.values("--allowed-base-url"));
    if all.is_empty() {
        return ALLOW_LIST.fail(
            "The operator has neither a base URL nor an allow-list.",
            "Set the chart's service.baseURL, or name one in each Workspace and in service.allowedBaseURLs.",
        );
    }
    let allow = "Start the operator with --allowed-base-url, or correct the Workspaces.";
    let list = match AllowList::parse(&all, deployed.has("--allow-insecure-http")) {
        Ok(list) => list,
        Err(error) => {
            return ALLOW_LIST.fail(format!("The operator's list is refused: {error}."), allow);
        }
    };
    let urls = specs.iter().filter_map(|spec| spec.base_url.as_deref());
    let refused: Vec<&str> = urls
        .filter(|url| BaseUrl::parse(url, &list).is_err())
        .collect();
    if refused.is_empty() {
        ALLOW_LIST.ok(format!("By the operator's flags: {}.", all.join(", ")))
    } else {
        ALLOW_LIST.fail(format!("These are not: {}.", refused.join(", ")), allow)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::used(Some(10), Some(4), 3, None)]
    #[case::held_and_nobody_waits(Some(0), None, 0, None)]
    #[case::held(Some(0), None, 1, Some("A limit of 0"))]
    #[case::each_namespace_held(None, Some(0), 1, Some("A limit of 0"))]
    #[case::of_no_effect(Some(4), Some(10), 0, Some("spec.maxActiveRunsPerNamespace is above"))]
    fn a_limit_that_holds_all_or_has_no_effect_is_told(
        #[case] all: Option<usize>,
        #[case] per_namespace: Option<usize>,
        #[case] queued: usize,
        #[case] expected: Option<&str>,
    ) {
        let told = misfit(RunLimits { all, per_namespace }, queued);
        assert_eq!(told.is_some(), expected.is_some(), "{told:?}");
        assert!(
            told.unwrap_or_default()
                .starts_with(expected.unwrap_or_default())
        );
    }
}
