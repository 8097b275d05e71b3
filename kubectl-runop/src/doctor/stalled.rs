//! Runs that wait for a person, by reason.

use std::collections::BTreeMap;

use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::Value;

use run_operator::api::{ConditionType, Reason, Run};
use run_operator::decide::explain::standing;

use super::ask::{CHECK_ACCESS, Refused, bounded};
use crate::contract_tool::statements::{Finding, Statement};

/// Runs asked for at a time.
const PAGE: u32 = 500;

const GOING: Statement = Statement {
    check: "runs.stalled",
    title: "no Run waits for a person",
};
const LIST: &str = "`kubectl runs list` shows them first, and `kubectl runs why NAME` what to do.";

/// Not checked: the API server did not answer.
pub(super) fn not_tried(why: &str) -> Finding {
    GOING.not_tried(why)
}

/// The finding for a namespace.
pub(super) async fn finding(client: &Client, namespace: &str) -> Finding {
    let kind = ApiResource::erase::<Run>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind);
    let mut params = ListParams::default().limit(PAGE);
    let mut runs = 0;
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    loop {
        let page = match bounded(api.list(&params)).await {
            Ok(page) => page,
            Err(refused) => return unread(refused, namespace),
        };
        runs += page.items.len();
        for reason in page.items.iter().filter_map(|run| stalled(&run.data)) {
            *reasons.entry(reason).or_default() += 1;
        }
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            return judged(namespace, runs, &reasons);
        }
    }
}

/// Why a Run that has not ended waits for a person.
fn stalled(run: &Value) -> Option<String> {
    let conditions = run["status"]["conditions"].as_array()?;
    let find = |kind: ConditionType| {
        let of_kind = |c: &&Value| c["type"] == kind.as_str() && c["status"] == "True";
        conditions.iter().find(of_kind)
    };
    let stalled = find(ConditionType::Stalled).filter(|_| find(ConditionType::Finished).is_none());
    let reason = stalled?["reason"].as_str().unwrap_or_default();
    let waits = !Reason::named(reason).is_some_and(standing::resumes_automatically);
    waits.then(|| reason.to_owned())
}

fn unread(refused: Refused, namespace: &str) -> Finding {
    match refused.code {
        Some(403) => GOING.not_tried(&format!(
            "these credentials may not list the Runs of {namespace}"
        )),
        Some(404) => GOING.not_tried("the cluster doesn't serve Runs"),
        _ => GOING.fail(refused.why, CHECK_ACCESS),
    }
}

fn judged(namespace: &str, runs: usize, reasons: &BTreeMap<String, usize>) -> Finding {
    if reasons.is_empty() {
        return GOING.ok(format!("Of {runs} in the namespace {namespace}."));
    }
    let waiting: usize = reasons.values().sum();
    let named: Vec<String> = reasons
        .iter()
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    let named = named.join(", ");
    GOING.warn(
        format!("{waiting} of {runs} in the namespace {namespace} do: {named}."),
        LIST,
    )
}
