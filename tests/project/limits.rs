//! What the proofs excuse, and what the program gives up, are limits that people can read.

use crate::files;

const LIMITS: &str = "docs/limits.md";

/// The place in the code that goes no further than a limit, and the words of the limit in the section on the promise.
const PLACES: [(&str, &str, &str); 8] = [
    (
        "tests/chaos/storms/verdict.rs",
        "fn may_be_left",
        "**The API server honours the finalizer.**",
    ),
    (
        "src/decide/run/schedule.rs",
        "CANCEL_GRACE: Duration = Duration::from_mins(5)",
        "**A cancellation that never finishes** doesn't block the object forever. Once the run is seen cancelling, the \
         object is released after five minutes",
    ),
    (
        "src/decide/invariants.rs",
        "KeyRetention,",
        "**No request outlives `keyRetentionSeconds`.**",
    ),
    (
        "src/decide/invariants.rs",
        "BytesRefused,",
        "**A refusal of the bytes holds for each request that had them.**",
    ),
    (
        "src/decide/invariants.rs",
        "VanishedCancelled,",
        "**The operator runs when an object is removed by force.**",
    ),
    (
        "src/decide/invariants.rs",
        "Orphan,",
        "**`Orphan` is seen before the object is removed.**",
    ),
    (
        "tests/model/state.rs",
        "misled: bool",
        "**The intent is not edited while its outcome is unknown**",
    ),
    (
        "src/start/mod.rs",
        "GRACE: Duration = Duration::from_secs(25)",
        "**A leader whose last calls hang** for more than 25 s after a SIGTERM",
    ),
];

/// Proves: P-limits
#[test]
fn the_promise_ends_where_the_limits_say() {
    let text = files::text(LIMITS);
    let (_, section) = text.split_once("## Where the promise ends\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let section = section.split_whitespace().collect::<Vec<_>>().join(" ");
    for (file, code, limit) in PLACES {
        assert!(files::text(file).contains(code), "{file} has no {code}");
        assert!(section.contains(limit), "{LIMITS} no longer says: {limit}");
    }
}
