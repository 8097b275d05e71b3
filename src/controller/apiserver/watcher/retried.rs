//! Retries of a watcher: when it tries again after a failure, and whether from a new list.

use std::time::Duration;

use kube::runtime::watcher::Event;
use tokio::time::Instant;

use crate::decide::backoff;
use crate::util::error_chain;

use super::super::object::{Maybe, Object};
use super::error::WatchError;
use super::source::Source;
use super::states::{State, Watcher};

/// Failures in a row after which the list begins again, whatever the error.
const FAILURES: u32 = 5;
/// Longest pause.
const LONGEST: Duration = Duration::from_secs(30);
/// Time after which a repeated list counts as the first one again.
const LASTING: Duration = Duration::from_mins(2);

/// A watcher with retries.
pub(super) struct Retried<K> {
    watcher: Watcher<K>,
    backoff: Backoff,
}

impl<K: Object> Retried<K> {
    pub(super) fn new(source: Source<K>) -> Self {
        Self {
            watcher: Watcher::new(source),
            backoff: Backoff::new(),
        }
    }

    pub(super) async fn next(&mut self) -> Event<Maybe<K>> {
        loop {
            let seen = self.watcher.next().await;
            match self.judge(seen) {
                Ok(event) => return event,
                Err(pause) => tokio::time::sleep(pause).await,
            }
        }
    }

    /// Counts failures. Returns an event, or the pause after an error.
    fn judge(
        &mut self,
        seen: Result<Event<Maybe<K>>, WatchError>,
    ) -> Result<Event<Maybe<K>>, Duration> {
        if std::mem::take(&mut self.watcher.bookmarked) {
            self.backoff.failures = 0;
        }
        match seen {
            Ok(event) => {
                // A list that fails later also begins and yields its first pages.
                if !matches!(event, Event::Init | Event::InitApply(_)) {
                    self.backoff.failures = 0;
                }
                Ok(event)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&mut self, error: &WatchError) -> Duration {
        let kind = K::kind(&());
        self.backoff.failures = self.backoff.failures.saturating_add(1);
        report(&kind, error, self.backoff.failures);
        let relist = self.backoff.failures >= FAILURES || error.is_gone();
        if relist {
            self.watcher.state = State::Empty;
        }
        self.backoff.pause(&kind, relist, Instant::now())
    }
}

/// Failures of a watch.
struct Backoff {
    /// Errors in a row.
    failures: u32,
    /// Lists in a row that were repeated soon.
    relists: u32,
    /// Start of the present list.
    since: Instant,
}

impl Backoff {
    fn new() -> Self {
        Self {
            failures: 0,
            relists: 0,
            since: Instant::now(),
        }
    }

    /// Pause after an error.
    fn pause(&mut self, kind: &str, relist: bool, now: Instant) -> Duration {
        if relist {
            let lasted = now.saturating_duration_since(self.since) >= LASTING;
            self.relists = if lasted {
                1
            } else {
                self.relists.saturating_add(1)
            };
        }
        let attempt = self.failures.max(self.relists);
        let pause = backoff::delay(attempt, None, backoff::seed(kind, attempt)).min(LONGEST);
        if relist {
            self.failures = 0;
            self.since = now + pause;
        }
        pause
    }
}

fn report(kind: &str, error: &WatchError, failures: u32) {
    if !error.is_unknown_kind() {
        tracing::warn!(k8s.kind = kind, failures, error = %error_chain(error), "watch failed; retrying");
    } else if failures == 1 {
        // Logged once per series of failures, not per list: the CRDs may be applied later.
        tracing::warn!(
            k8s.kind = kind,
            "the API server doesn't serve this kind; apply the CRDs: run-operator crds | kubectl apply --server-side -f -"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{EMPTY, refused, source, watch};
    use super::*;
    use crate::api::Run;
    use crate::controller::apiserver::answer;

    fn watched(answers: Vec<String>) -> Retried<Run> {
        Retried::new(source(answers))
    }

    /// Proves: F-refusing
    #[test]
    fn lists_after_repeated_410s_back_off() {
        let mut backoff = Backoff::new();
        let mut pauses = Vec::new();
        let mut now = Instant::now();
        for _ in 0..10 {
            let pause = backoff.pause("Run", true, now);
            now += pause;
            pauses.push(pause);
        }
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert!(pauses[0] <= Duration::from_secs(1));
        assert_eq!(pauses[9], LONGEST);
        let pause = backoff.pause("Run", true, now + LASTING);
        assert!(pause <= Duration::from_secs(1));
    }

    #[test]
    fn failures_in_a_row_are_further_and_further_apart() {
        let mut backoff = Backoff::new();
        let now = Instant::now();
        let pauses: Vec<_> = (1..=4)
            .map(|failures| {
                backoff.failures = failures;
                backoff.pause("Run", false, now)
            })
            .collect();
        assert!(pauses.is_sorted() && pauses[0] < pauses[3], "{pauses:?}");
    }

    /// The pauses after so many errors, and the events between them.
    async fn met(
        retried: &mut Retried<Run>,
        errors: usize,
    ) -> (Vec<Duration>, Vec<Event<Maybe<Run>>>) {
        let (mut pauses, mut events) = (Vec::new(), Vec::new());
        while pauses.len() < errors {
            let seen = retried.watcher.next().await;
            match retried.judge(seen) {
                Ok(event) => events.push(event),
                Err(pause) => pauses.push(pause),
            }
        }
        (pauses, events)
    }

    /// Proves: F-refusing
    #[tokio::test]
    async fn lists_that_fail_at_their_second_page_back_off() {
        let page = r#"{"metadata":{"resourceVersion":"5","continue":"more"},"items":[{"metadata":{"name":"a"},"spec":{"workload":{}}}]}"#;
        let broken = r#"{"kind":"Status","status":"Failure","message":"no","code":500}"#;
        let tries = 4;
        let answers =
            (0..tries).flat_map(|_| [refused(), answer("200", page), answer("500", broken)]);
        let mut retried = watched(answers.collect());
        let (pauses, events) = met(&mut retried, tries).await;
        assert!(pauses.windows(2).all(|two| two[0] < two[1]), "{pauses:?}");
        assert_eq!(events.len(), 2 * tries, "each time a beginning and one Run");
    }

    /// Proves: F-refusing
    #[tokio::test]
    async fn a_bookmark_ends_a_row_of_failures() {
        let ended = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"no","code":500}}"#;
        let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
        let failing = watch(&format!("{ended}\n"));
        let moving = watch(&format!("{bookmark}\n{ended}\n"));
        let watches = [&failing, &failing, &moving, &moving, &moving, &moving].map(Clone::clone);
        let answers = [refused(), answer("200", EMPTY)].into_iter().chain(watches);
        let mut retried = watched(answers.collect());
        met(&mut retried, 2).await;
        assert_eq!(retried.backoff.failures, 2);
        // Nor does it lead to a list.
        let (_, events) = met(&mut retried, 4).await;
        assert_eq!((retried.backoff.failures, events.len()), (1, 0));
    }
}
