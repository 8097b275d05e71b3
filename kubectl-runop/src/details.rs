//! What the service says of a run beside its state: shown by `why`; and `open`, which leads to its page in the service's
//! console.

use std::io::{IsTerminal, stdout};

use jiff::Timestamp;

use run_operator::decide::console::https;

use crate::args::OpenArgs;
use crate::cluster::Cluster;
use crate::error::{End, ToolError};
use crate::explain::between;
use crate::print::{line, out};
use crate::run::Run;

const NO_ADDRESS: &str = "The operator shows it if the service's answers name it, the contract file says where \
    (run.consoleURLPointers), and its origin is allowed (--console-origin, service.consoleOrigins of the chart). An Event of \
    the Run says if an address was left out: kubectl describe run";

pub(crate) async fn open(cluster: &Cluster, args: &OpenArgs) -> Result<End, ToolError> {
    let run = cluster.run(&args.name).await?;
    let address = address(&run)?;
    out(&format!("{address}\n"))?;
    if !args.print && stdout().is_terminal() {
        open::that_detached(&address).map_err(|error| {
            ToolError::usage(format!(
                "failed to open a browser ({error}); open the address above yourself"
            ))
        })?;
    }
    Ok(End::Succeeded)
}

/// The address of the run's page. A status may be forged: only a plain one is passed to another program.
fn address(run: &Run) -> Result<String, ToolError> {
    let name = run.name();
    let status = run.status.as_ref();
    let Some(stored) = status.and_then(|status| status.console_url.as_deref()) else {
        let why = format!("the Run {name} has no status.consoleURL. {NO_ADDRESS} {name}");
        return Err(ToolError::usage(why));
    };
    https(stored).map(String::from).ok_or_else(|| {
        let shown = line(stored);
        ToolError::usage(format!(
            "status.consoleURL of the Run {name} is no plain https URL, so it is not opened: {shown:?}"
        ))
    })
}

/// One line for each, for people.
pub(crate) fn lines(run: &Run, now: Timestamp) -> Vec<String> {
    let Some(status) = &run.status else {
        return Vec::new();
    };
    let progress = status.progress.as_ref().map(|progress| {
        let percent = progress.percent.map(|percent| format!("{percent} %"));
        let since = progress.last_update_time.as_ref();
        let since = since.map(|at| format!("{} ago", between(at.0, now)));
        let parts = [percent, progress.message.clone(), since]
            .into_iter()
            .flatten();
        format!("Progress: {}", parts.collect::<Vec<_>>().join(", "))
    });
    let results = status.results.iter();
    let results = results.map(|(name, value)| format!("Result {name}: {value}"));
    let failure = status.failure.as_ref();
    let failure = failure.map(|text| format!("Failure: {text}"));
    let address = status.console_url.as_ref();
    let address = address.map(|url| format!("Console: {url}"));
    let lines = progress.into_iter().chain(results);
    lines.chain(failure).chain(address).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use run_operator::api::RunStatus;
    use run_operator::api::status::Progress;

    use super::*;
    use crate::fixtures::{active, at};

    fn with(change: impl FnOnce(&mut RunStatus)) -> Run {
        let mut run = active();
        change(run.status.get_or_insert_default());
        run
    }

    /// Proves: K-why, P-details
    #[test]
    fn why_has_a_line_for_each_thing_that_the_service_says() {
        let run = with(|status| {
            status.progress = Some(Progress {
                percent: Some(30),
                message: Some("epoch 3 of 10".to_owned()),
                last_update_time: Some(Time(at(0))),
            });
            let result = ("accuracy".to_owned(), "0.93".to_owned());
            status.results = BTreeMap::from([result]);
            status.failure = Some("out of memory".to_owned());
            status.console_url = Some("https://console.example.com/r".to_owned());
        });
        assert_eq!(
            lines(&run, at(60)),
            [
                "Progress: 30 %, epoch 3 of 10, 1m ago",
                "Result accuracy: 0.93",
                "Failure: out of memory",
                "Console: https://console.example.com/r",
            ]
        );
        assert!(lines(&active(), at(60)).is_empty());
    }

    /// Proves: K-open
    #[test]
    fn only_a_plain_address_is_opened_and_without_one_it_says_what_to_do() {
        let of = |url: &str| address(&with(|status| status.console_url = Some(url.to_owned())));
        let good = "https://console.example.com/r?a=b";
        assert_eq!(of(good).ok().as_deref(), Some(good));
        for wrong in ["file:///etc/passwd", "https://a.example/\" & calc", "-a"] {
            let told = of(wrong).unwrap_err().to_string();
            assert!(told.contains("is not opened"), "{told}");
        }
        let told = address(&active()).unwrap_err().to_string();
        for part in ["run.consoleURLPointers", "--console-origin", "run train"] {
            assert!(told.contains(part), "{told}");
        }
    }
}
