//! Requests, as the operator counts them and as both servers do.

use std::collections::BTreeMap;

use serde_json::Value;

use super::scrape;
use crate::support::{Audit, Series, World, eventually};

/// By two labels.
type Counts = BTreeMap<(String, String), f64>;

/// The counts of one family by two of its labels, those at zero left out.
fn counts(all: &[Series], name: &str, by: [&str; 2]) -> Counts {
    let mut counts = Counts::new();
    for one in all {
        if one.name == name && one.value > 0.0 {
            let key = by.map(|label| one.labels[label].clone()).into();
            *counts.entry(key).or_default() += one.value;
        }
    }
    counts
}

/// The requests in the API server's audit log, by method and status; each request once.
fn audited(world: &World) -> Counts {
    let requests = Audit::of(world).all_requests();
    let by_id: BTreeMap<String, &Value> = requests
        .iter()
        .map(|request| (request["auditID"].to_string(), request))
        .collect();
    let mut counts = Counts::new();
    for request in by_id.values() {
        let method = match request["verb"].as_str().unwrap() {
            "get" | "list" | "watch" => "GET",
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" => "DELETE",
            other => panic!("{other}"),
        };
        let code = request["responseStatus"]["code"].to_string();
        *counts.entry((method.to_owned(), code)).or_default() += 1.0;
    }
    counts
}

/// The requests that the service has counted, by our name of the operation and status.
async fn served(world: &World) -> Counts {
    let stats = world.service.get("stats").await;
    let mut counts = Counts::new();
    for (operation, by_status) in stats["requests"].as_object().unwrap() {
        let operation = match operation.as_str() {
            "getWorkspace" => "getCurrentWorkspace",
            "streamEvents" => "streamRunEvents",
            other => other,
        };
        for (status, count) in by_status.as_object().unwrap() {
            let key = (operation.to_owned(), status.clone());
            counts.insert(key, count.as_f64().unwrap());
        }
    }
    counts.retain(|_, count| *count > 0.0);
    counts
}

pub(super) async fn match_those_of_both_servers(world: &World) {
    eventually("both servers and the operator count the same", async || {
        let all = scrape(world).await;
        let by = ["method", "code"];
        let of_api_server = counts(&all, "run_operator_api_requests_total", by);
        let by = ["operation", "code"];
        let of_service = counts(&all, "run_operator_service_requests_total", by);
        let counted = [of_api_server, of_service];
        let asked = [audited(world), served(world).await];
        if counted == asked {
            Ok(())
        } else {
            Err(format!("{counted:?}, and at the servers {asked:?}"))
        }
    })
    .await;
}
