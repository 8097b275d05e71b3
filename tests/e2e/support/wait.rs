//! Bounded waits on a condition. Nothing here measures time; the bound only ends what hangs.

use std::fmt::Debug;
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use kube::Api;
use run_operator::api::Run;
use serde::de::DeserializeOwned;

/// Generous: on a machine that compiles at the same time everything takes longer. `RUN_OPERATOR_TEST_PATIENCE`, in
/// seconds, is for a program that is broken on purpose: most waits for it run into their bound.
static PATIENCE: LazyLock<Duration> = LazyLock::new(|| {
    let seconds = std::env::var("RUN_OPERATOR_TEST_PATIENCE").map(|text| text.parse().unwrap());
    Duration::from_secs(seconds.unwrap_or(90))
});
const POLL: Duration = Duration::from_millis(25);
/// In which the open streams of a Workspace move to a new token, one after the other.
pub(crate) const STREAMS_MOVE: Duration = Duration::from_mins(1);

/// Waits until `look` succeeds.
///
/// # Panics
/// After the patience, 90 seconds, with the last error of `look`; or if one `look` takes as long.
pub(crate) async fn eventually<T, E: std::fmt::Display>(
    what: &str,
    look: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    eventually_after(Duration::ZERO, what, look).await
}

/// The same for what takes longer by its nature: `more` is added to the patience.
///
/// # Panics
/// As [`eventually`] does.
pub(crate) async fn eventually_after<T, E: std::fmt::Display>(
    more: Duration,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let patience = *PATIENCE + more;
    let deadline = Instant::now() + patience;
    loop {
        match tokio::time::timeout(patience, look()).await {
            Ok(Ok(found)) => return found,
            Ok(Err(seen)) => assert!(
                Instant::now() < deadline,
                "waited in vain until {what}; saw {seen}"
            ),
            Err(elapsed) => {
                panic!("waited in vain until {what}; the last attempt did not return: {elapsed}")
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Checks `looks` times that `check` still holds. For "nothing happens", which no condition can show: pass a
/// count that covers the operator's own pauses in the test.
pub(crate) async fn holds_for_a_while(looks: u32, mut check: impl AsyncFnMut()) {
    for _ in 0..looks {
        check().await;
        tokio::time::sleep(POLL).await;
    }
}

/// Waits until `wanted` is true of a Run.
pub(crate) async fn run_until(
    runs: &Api<Run>,
    name: &str,
    what: &str,
    wanted: impl Fn(&Run) -> bool,
) -> Run {
    eventually(&format!("the Run {name} {what}"), async || {
        let run = runs.get(name).await.map_err(|error| error.to_string())?;
        if wanted(&run) {
            Ok(run)
        } else {
            Err(serde_json::to_string_pretty(&run.status).unwrap())
        }
    })
    .await
}

/// Runs a program to its end, with `input` on its standard input. What it printed, or what it complained about.
pub(crate) async fn output_of(command: Command, input: &str) -> Result<String, String> {
    let input = input.to_owned();
    let run = move || test_support::tools::output_of(command, &input).unwrap();
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

/// Waits until an object no longer exists.
pub(crate) async fn gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned,
{
    eventually(&format!("{name} is gone"), async || {
        match api.get_opt(name).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}
