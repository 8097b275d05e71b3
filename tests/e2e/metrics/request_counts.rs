//! Requests, as the operator counts them and as both servers do.

use std::collections::{BTreeMap, BTreeSet};

use super::{scrape, whole};
use crate::support::{Audit, World, eventually, series};

/// The counts of one family by two of its labels, those at zero left out.
fn counts(text: &str, name: &str, by: [&str; 2]) -> BTreeMap<(String, String), u64> {
    let mut counts = BTreeMap::new();
    for one in series(text)
        .iter()
        .filter(|one| one.name == name && one.value > 0.0)
    {
        let key = (one.labels[by[0]].clone(), one.labels[by[1]].clone());
        *counts.entry(key).or_default() += whole(one.value);
    }
    counts
}

/// The requests in the API server's audit log, by method and status; each request once.
fn audited(world: &World) -> BTreeMap<(String, String), u64> {
    let (mut seen, mut counts) = (BTreeSet::new(), BTreeMap::new());
    for request in Audit::of(world).all_requests() {
        if !seen.insert(request["auditID"].as_str().unwrap().to_owned()) {
            continue;
        }
        let method = match request["verb"].as_str().unwrap() {
            "get" | "list" | "watch" => "GET",
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" => "DELETE",
            other => panic!("{other}"),
        };
        let code = request["responseStatus"]["code"].to_string();
        *counts.entry((method.to_owned(), code)).or_default() += 1;
    }
    counts
}

/// The requests that the service has counted, by our name of the operation and status.
async fn served(world: &World) -> BTreeMap<(String, String), u64> {
    let stats = world.service.get("stats").await;
    let mut counts = BTreeMap::new();
    for (operation, by_status) in stats["requests"].as_object().unwrap() {
        let operation = match operation.as_str() {
            "getWorkspace" => "getCurrentWorkspace",
            "streamEvents" => "streamRunEvents",
            other => other,
        };
        for (status, count) in by_status.as_object().unwrap() {
            let count = count.as_u64().unwrap();
            if count > 0 {
                counts.insert((operation.to_owned(), status.clone()), count);
            }
        }
    }
    counts
}

pub(super) async fn match_those_of_both_servers(world: &World) {
    eventually(
        "the API server and the operator count the same",
        async || {
            let audited = audited(world);
            let counted = counts(
                &scrape(world).await,
                "rest_client_requests_total",
                ["method", "code"],
            );
            if counted == audited {
                return Ok(());
            }
            Err(format!("{counted:?}, and in the log {audited:?}"))
        },
    )
    .await;
    let name = "run_operator_service_requests_total";
    eventually("the service and the operator count the same", async || {
        let served = served(world).await;
        let counted = counts(&scrape(world).await, name, ["operation", "code"]);
        if counted == served {
            return Ok(());
        }
        Err(format!("{counted:?}, and at the service {served:?}"))
    })
    .await;
}
