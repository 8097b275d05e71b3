//! Whether the operator's allow-list has the base URLs that Workspaces name.

use run_operator::service::{AllowList, BaseUrl};

use super::deployment::Configured;
use crate::contract_tool::statements::{Finding, Statement};

const ALLOWED: Statement = Statement {
    check: "operator.allowList",
    title: "the base URLs are allowed",
};
const ALLOW: &str = "Start the operator with --allowed-base-url, or correct the Workspaces.";
const BASE_URL: &str =
    "Set the chart's baseUrl, or name one in each Workspace and in allowedBaseUrls.";

/// Not checked, for this reason.
pub(super) fn not_tried(why: &str) -> Finding {
    ALLOWED.not_tried(why)
}

/// The finding for the base URLs that Workspaces name themselves.
pub(super) fn finding(configured: &Configured, base_urls: &[String]) -> Finding {
    let own = configured.values("--base-url");
    let all = own
        .iter()
        .chain(&*configured.values("--allowed-base-url"))
        .cloned()
        .collect::<Vec<_>>();
    if all.is_empty() {
        let why = "The operator has neither a base URL nor an allow-list.";
        return ALLOWED.fail(why.to_owned(), BASE_URL);
    }
    let insecure = configured.has("--allow-insecure-http");
    let list = match AllowList::parse(all.iter().map(String::as_str), insecure) {
        Ok(list) => list,
        Err(error) => {
            return ALLOWED.fail(format!("The operator's list is refused: {error}."), ALLOW);
        }
    };
    let refused: Vec<&str> = base_urls
        .iter()
        .filter(|url| BaseUrl::parse(url, &list).is_err())
        .map(String::as_str)
        .collect();
    if refused.is_empty() {
        ALLOWED.ok(format!("By the operator's flags: {}.", all.join(", ")))
    } else {
        ALLOWED.fail(format!("These are not: {}.", refused.join(", ")), ALLOW)
    }
}
