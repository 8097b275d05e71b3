//! From flags to the controller's configuration.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use run_operator::contract_file;
use run_operator::controller::Config;
use run_operator::decide::Settings;
use run_operator::decide::console::ConsoleOrigins;
use run_operator::service::{AllowList, BaseUrl, ServiceProxy};
use run_operator::util::{Failed, failed};

use crate::cli::ControllerArgs;

/// Minimum number of files for other uses than streams: the API server, the Lease, scrapes, checks and calls.
const RESERVED_FILES: u64 = 96;

/// Each `--allowed-base-url` is first parsed alone: an error names it by its position, as it may hold a password.
fn allow_list(args: &ControllerArgs) -> Result<AllowList, Failed> {
    let insecure = args.plain_http.allow_insecure_http;
    AllowList::parse(&args.base_url, insecure).map_err(failed("use --base-url"))?;
    for (number, url) in (1..).zip(&args.allowed_base_urls) {
        let what = format!("use --allowed-base-url number {number}");
        AllowList::parse([url], insecure).map_err(failed(what))?;
    }
    let all = args.base_url.iter().chain(&args.allowed_base_urls);
    AllowList::parse(all, insecure).map_err(failed("use --base-url"))
}

pub(super) fn config(args: &ControllerArgs) -> Result<Config, Failed> {
    let (min, max) = (args.poll_min, args.poll_max);
    if min > max {
        let why = format!("{min:?} is longer than {max:?}");
        return Err(failed("use --poll-min and --poll-max")(why));
    }
    let contract = Arc::new(contract_file::load(args.contract.as_deref())?);
    let allow_list = allow_list(args)?;
    let base_url = args.base_url.as_deref();
    let base_url = base_url
        .map(|url| BaseUrl::parse(url, &allow_list))
        .transpose()
        .map_err(failed("use --base-url"))?;
    let namespaces: BTreeSet<String> = args.namespaces.iter().cloned().collect();
    let settings = Settings {
        // Each term has its own.
        process: String::new(),
        poll_min: min,
        poll_max: max,
        service_events: args.service_events,
        console_origins: ConsoleOrigins::parse(&args.console_origins)
            .map_err(failed("use --console-origin"))?,
    };
    Ok(Config {
        base_url: base_url.map(|url| url.as_str().to_owned()),
        allow_list,
        contract,
        namespaces: namespaces.into_iter().collect(),
        cluster_workspaces: args.cluster_workspaces,
        schedules: args.schedules,
        // If unset, the caller fills in the namespace of the cluster's configuration.
        cluster_resource_namespace: args.cluster_resource_namespace.clone().unwrap_or_default(),
        settings,
        max_concurrent_reconciles: args.max_concurrent_reconciles,
        max_streams: usize::try_from(args.max_streams).unwrap_or(usize::MAX),
        watch_timeout: args.watch_timeout,
        h2c: args.plain_http.h2c,
        service_proxy: ServiceProxy::from_flag(args.service_proxy.url.as_deref())?,
    })
}

/// Raises the soft limit of open files to the hard one. Returns how many of the `wanted` event streams it allows.
pub(super) fn streams_by_open_files(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let hard = Rlimit {
        current: maximum,
        maximum,
    };
    let raised = current != maximum && setrlimit(Resource::Nofile, hard).is_ok();
    let limit = if raised { maximum } else { current };
    tracing::info!(before = current, limit, "limit of open files");
    let streams = limit.map_or(wanted, |limit| streams_within(limit, wanted));
    if streams < wanted {
        tracing::warn!(
            wanted,
            streams,
            limit,
            "the limit of open files leaves fewer event streams than --max-streams; the other Runs are polled"
        );
    }
    streams
}

/// Each stream takes one file. A quarter of the files, at least 96, stays for other uses.
fn streams_within(limit: u64, wanted: usize) -> usize {
    let left = limit.saturating_sub(RESERVED_FILES.max(limit / 4));
    let left = usize::try_from(left).unwrap_or(usize::MAX).max(1);
    wanted.min(left)
}

/// The Pod's name is for people; the random part differs after a restart or a lost Lease, which loses the memory.
pub(super) fn process_name() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "local".to_owned());
    format!("{host}/{}", uuid::Uuid::new_v4())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves: P-files
    #[test]
    fn streams_leave_a_quarter_of_the_files_and_96_at_least() {
        assert_eq!(streams_within(1_048_576, 1000), 1000);
        assert_eq!(streams_within(1024, 1000), 768);
        assert_eq!(streams_within(256, 1000), 160);
        assert_eq!(streams_within(100, 1000), 4);
        assert_eq!(streams_within(64, 1000), 1);
        assert_eq!(streams_within(64, 0), 0, "none are wanted");
    }
}
