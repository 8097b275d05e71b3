use kube::ResourceExt;

use crate::api::Run;
use crate::controller::apiserver::{answer, loopback, silent};

use super::*;

// Proves: F-refusing
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

/// A watcher of Runs on a server with these answers.
fn watched(answers: Vec<String>) -> Retried<Run> {
    let api: Api<Run> = Api::all(loopback(answers));
    Retried::new(Source::new(api, Duration::from_secs(100)))
}

/// The pauses after so many errors, and the events between them.
async fn met(
    retried: &mut Retried<Run>,
    errors: usize,
) -> (Vec<Duration>, Vec<Event<Guarded<Run>>>) {
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

// Proves: F-refusing
#[tokio::test]
async fn lists_that_fail_at_their_second_page_back_off() {
    let page = r#"{"metadata":{"resourceVersion":"5","continue":"more"},"items":[{"metadata":{"name":"a"},"spec":{"workload":{}}}]}"#;
    let broken = r#"{"kind":"Status","status":"Failure","message":"no","code":500}"#;
    let tries = 4;
    let answers = (0..tries).flat_map(|_| [answer("200", page), answer("500", broken)]);
    let mut retried = watched(answers.collect());
    let (pauses, events) = met(&mut retried, tries).await;
    assert!(pauses.windows(2).all(|two| two[0] < two[1]), "{pauses:?}");
    assert_eq!(events.len(), 2 * tries, "each time a beginning and one Run");
}

/// A line of a watch with a Run of this name.
fn line(name: &str, version: u8) -> String {
    let object = format!(
        r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}},"spec":{{"workload":{{}}}}}}"#
    );
    format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n")
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
const EMPTY: &str = r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#;

// Proves: F-refusing
#[tokio::test]
async fn a_cut_watch_resumes_after_its_last_event_without_a_failure() {
    let whole = chunk(&line("a", 6));
    let half = chunk(&line("b", 7));
    let half = &half[..half.len() / 2];
    let sized = "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\nconnection: close\r\n\r\n";
    let watches = [
        // Ended within a chunk, between two of them, within a body of known length, and normally.
        format!("{CHUNKED}{whole}{half}"),
        format!("{CHUNKED}{whole}"),
        format!("{sized}{}", line("a", 6)),
        format!("{CHUNKED}{whole}0\r\n\r\n"),
    ];
    for watch in watches {
        let next = format!("{CHUNKED}{}0\r\n\r\n", chunk(&line("b", 7)));
        let mut retried = watched(vec![answer("200", EMPTY), watch.clone(), next]);
        let mut names = Vec::new();
        while names.len() < 2 {
            let seen = retried.watcher.next().await;
            match seen
                .unwrap_or_else(|error| panic!("{watch}: {}", crate::util::error_chain(&error)))
            {
                Event::Apply(run) => names.push(run.name_any()),
                Event::Init | Event::InitDone => {}
                event => panic!("{event:?}"),
            }
        }
        assert_eq!(names, ["a", "b"]);
    }
}

// Proves: F-refusing
#[tokio::test]
async fn a_bookmark_ends_a_row_of_failures() {
    let ended = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"no","code":500}}"#;
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
    let watch = |lines: &str| format!("{CHUNKED}{}0\r\n\r\n", chunk(lines));
    let failing = watch(&format!("{ended}\n"));
    let moving = watch(&format!("{bookmark}\n{ended}\n"));
    let watches = [&failing, &failing, &moving, &moving, &moving, &moving].map(Clone::clone);
    let answers = std::iter::once(answer("200", EMPTY)).chain(watches);
    let mut retried = watched(answers.collect());
    met(&mut retried, 2).await;
    assert_eq!(retried.backoff.failures, 2);
    // Nor does it lead to a list.
    let (_, events) = met(&mut retried, 4).await;
    assert_eq!((retried.backoff.failures, events.len()), (1, 0));
}

fn listed(status: Status) -> WatchError {
    WatchError::List(kube::Error::Api(Box::new(status)))
}

#[test]
fn a_404_to_a_list_or_watch_means_an_unknown_kind() {
    // The actual answer: a bare 404, which has no Status of its own.
    let bare = Status::failure("404 page not found", "").with_code(404);
    assert!(listed(bare.clone()).is_unknown_kind());
    assert!(WatchError::Begin(kube::Error::Api(Box::new(bare))).is_unknown_kind());
    let forbidden = Status::failure("forbidden", "Forbidden").with_code(403);
    assert!(!listed(forbidden).is_unknown_kind());
}

fn event(text: &str, version: &mut String) -> Result<Option<Event<Guarded<Run>>>, WatchError> {
    let line: Line<'_> = serde_json::from_str(text).unwrap();
    read(&line, version, decode_or_skip)
}

// Proves: F-undecodable
#[test]
fn an_undecodable_watch_line_is_one_bad_item_and_no_error() {
    let mut version = "1".to_owned();
    let bad =
        r#"{"type":"ADDED","object":{"metadata":{"name":"bad","resourceVersion":"5"},"spec":[]}}"#;
    let seen = event(bad, &mut version).unwrap();
    let Some(Event::Apply(object)) = seen else {
        panic!("{seen:?}");
    };
    assert!(object.0.is_err() && object.name_any() == "bad");
    assert_eq!(version, "5");
    let nameless = r#"{"type":"ADDED","object":{"metadata":7}}"#;
    assert!(event(nameless, &mut version).unwrap().is_none());
    assert_eq!(version, "5");
}

#[test]
fn a_bookmark_moves_the_version_and_an_error_ends_the_watch() {
    let mut version = "1".to_owned();
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
    assert!(event(bookmark, &mut version).unwrap().is_none());
    assert_eq!(version, "9");
    let gone = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":410,"reason":"Expired","message":"too old"}}"#;
    let error = event(gone, &mut version).unwrap_err();
    assert!(error.is_gone());
}

#[tokio::test]
async fn a_version_that_was_written_here_is_not_decoded_again() {
    let item = |version: &str| {
        let text = format!(
            r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"{version}"}},"spec":{{"workload":{{}}}}}}"#
        );
        RawValue::from_string(text).unwrap()
    };
    let Ok(written) = decode_or_skip::<Run>(&item("5")).unwrap().0 else {
        panic!("it can be decoded");
    };
    let known = Arc::clone(&written);
    let source = Source::new(Api::<Run>::all(silent()), Duration::ZERO)
        .known(move |uid, version| (uid == "u" && version == "5").then(|| Arc::clone(&known)));
    let of = |version: &str| source.decode(&item(version)).unwrap().0.unwrap();
    assert!(Arc::ptr_eq(&of("5"), &written));
    let newer = of("6");
    assert_eq!(newer.resource_version().as_deref(), Some("6"));
}
