//! Other API groups with the names of our kinds: with them `kubectl get runs` may mean something else.

use kube::Client;

use run_operator::api::names;

use super::ask::{Refused, bounded};
use crate::contract_tool::statements::{Finding, Statement};

const ALONE: Statement = Statement {
    check: "cluster.names",
    title: "the names runs and workspaces are ours",
};
const PLURALS: [&str; 3] = ["runs", "workspaces", "clusterworkspaces"];
const GROUP_NEEDED: &str = "Name the group in commands, as in `kubectl get runs.run-operator.dev`.";

/// Not checked: the API server did not answer.
pub(super) fn not_tried(why: &str) -> Finding {
    ALONE.not_tried(why)
}

/// The finding, from the discovery document that every authenticated user may read.
pub(super) async fn finding(client: &Client) -> Finding {
    let groups = match bounded(client.list_api_groups_aggregated()).await {
        Ok(groups) => groups,
        Err(Refused { why, .. }) => return ALONE.not_tried(why.trim_end_matches('.')),
    };
    let mut others: Vec<String> = Vec::new();
    for group in groups.items {
        let name = group
            .metadata
            .and_then(|meta| meta.name)
            .unwrap_or_default();
        if name == names::GROUP {
            continue;
        }
        for resource in group.versions.iter().flat_map(|version| &version.resources) {
            let plural = resource.resource.as_deref().unwrap_or_default();
            let other = format!("{plural}.{name}");
            if PLURALS.contains(&plural) && !others.contains(&other) {
                others.push(other);
            }
        }
    }
    if others.is_empty() {
        ALONE.ok("No other API group has them.")
    } else {
        ALONE.warn(
            format!("There are {}, too.", others.join(" and ")),
            GROUP_NEEDED,
        )
    }
}
