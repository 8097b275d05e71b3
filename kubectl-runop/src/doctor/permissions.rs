//! Whether the operator's service account may do what the operator does in a namespace. The API server is asked; nothing
//! is tried.

use k8s_openapi::api::authorization::v1::{
    LocalSubjectAccessReview, ResourceAttributes, SubjectAccessReviewSpec,
};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

use run_operator::api::names;

use super::ask::{Refused, bounded};
use super::deployment::Configured;
use crate::contract_tool::statements::{Finding, Statement};

const MAY: Statement = Statement {
    check: "operator.permissions",
    title: "the operator may do its work",
};
const GRANT: &str = "Compare with the chart's roles; watchNamespaces and tokenSecretNames decide what they contain.";

/// What the operator does in each namespace that it serves: the group, the resource, the verbs. The Secrets that a
/// Workspace names are asked for by name.
const NEEDED: [(&str, &str, &[&str]); 5] = [
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

/// Not checked, for this reason.
pub(super) fn not_tried(why: &str) -> Finding {
    MAY.not_tried(why)
}

/// The finding for a namespace, and for the Secrets that its Workspaces name.
pub(super) async fn finding(
    client: &Client,
    place: &str,
    configured: &Configured,
    namespace: &str,
    secrets: &[String],
) -> Finding {
    let user = format!("system:serviceaccount:{place}:{}", configured.account);
    let needed = NEEDED.iter().flat_map(|(group, resource, verbs)| {
        let ask = |verb: &&str| (*group, *resource, (*verb).to_owned(), None);
        verbs.iter().map(ask).collect::<Vec<_>>()
    });
    let tokens = secrets
        .iter()
        .map(|name| ("", "secrets", "get".to_owned(), Some(name.clone())));
    let mut missing = Vec::new();
    let mut asked = 0;
    for (group, resource, verb, name) in needed.chain(tokens) {
        let attributes = attributes(namespace, group, resource, &verb, name.clone());
        match allowed(client, namespace, &user, attributes).await {
            Ok(true) => {}
            Ok(false) => {
                let name = name.map(|name| format!(" {name}")).unwrap_or_default();
                missing.push(format!("{verb} {resource}{name}"));
            }
            Err(Refused {
                code: Some(403), ..
            }) => {
                return MAY
                    .not_tried("these credentials may not ask for the permissions of others");
            }
            Err(refused) => return MAY.not_tried(refused.why.trim_end_matches('.')),
        }
        asked += 1;
    }
    if missing.is_empty() {
        MAY.ok(format!(
            "{user} has the {asked} permissions that it needs in the namespace {namespace}."
        ))
    } else {
        let missing = missing.join(", ");
        let why = format!("In the namespace {namespace} {user} may not: {missing}.");
        MAY.fail(why, GRANT)
    }
}

fn attributes(
    namespace: &str,
    group: &str,
    resource: &str,
    verb: &str,
    name: Option<String>,
) -> ResourceAttributes {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, below)) => (resource, Some(below.to_owned())),
        None => (resource, None),
    };
    ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        verb: Some(verb.to_owned()),
        name,
        ..ResourceAttributes::default()
    }
}

/// The groups of a service account.
fn groups(user: &str) -> Vec<String> {
    let namespace = user.split(':').nth(2).unwrap_or_default();
    vec![
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ]
}

async fn allowed(
    client: &Client,
    namespace: &str,
    user: &str,
    attributes: ResourceAttributes,
) -> Result<bool, Refused> {
    let api: Api<LocalSubjectAccessReview> = Api::namespaced(client.clone(), namespace);
    let review = LocalSubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            groups: Some(groups(user)),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        ..LocalSubjectAccessReview::default()
    };
    let answer = bounded(api.create(&PostParams::default(), &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
