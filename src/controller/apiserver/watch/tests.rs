use kube::ResourceExt;
use rstest::rstest;

use super::*;
use crate::api::Run;
use crate::controller::apiserver::{answer, loopback, silent};

fn watched(answers: Vec<String>) -> Watch<Run> {
    Watch::new(Api::all(loopback(answers)), Config::default().timeout(100))
}

fn line(name: &str, version: u8) -> String {
    typed("ADDED", name, version)
}

fn typed(what: &str, name: &str, version: u8) -> String {
    let object = format!(
        r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}},"spec":{{"workload":{{}}}}}}"#
    );
    format!("{{\"type\":\"{what}\",\"object\":{object}}}\n")
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn lines(lines: &str) -> String {
    format!("{CHUNKED}{}0\r\n\r\n", chunk(lines))
}

/// The answer to a streamed list of an API server that has none.
fn refused() -> String {
    failure(422)
}

fn failure(code: u16) -> String {
    let body = format!(
        r#"{{"kind":"Status","status":"Failure","message":"sendInitialEvents is forbidden","code":{code}}}"#
    );
    answer(&code.to_string(), &body)
}

fn ended(code: u16) -> String {
    format!(
        "{{\"type\":\"ERROR\",\"object\":{{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"no\",\"reason\":\"\",\"code\":{code}}}}}\n"
    )
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
const EMPTY: &str = r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#;
/// The line after which a streamed list is complete.
const COMPLETE: &str = r#"{"type":"BOOKMARK","object":{"kind":"Run","apiVersion":"v1","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}
"#;
/// One that says nothing of a list.
const MOVED: &str = r#"{"type":"BOOKMARK","object":{"kind":"Run","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}
"#;

fn word(event: &Event<Maybe<Run>>) -> String {
    match event {
        Event::Init => "list".to_owned(),
        Event::InitApply(run) => format!("listed {}", run.name_any()),
        Event::InitDone => "complete".to_owned(),
        Event::Apply(run) => format!("changed {}", run.name_any()),
        Event::Delete(run) => format!("deleted {}", run.name_any()),
    }
}

async fn told(watch: &mut Watch<Run>, count: usize) -> (Vec<String>, Vec<Duration>) {
    let (mut told, mut pauses) = (Vec::new(), Vec::new());
    while told.len() < count {
        match watch.read(SILENCE).await {
            Ok(event) => told.extend(event.as_ref().map(word)),
            Err(error) => pauses.push(watch.failed(&error)),
        }
    }
    (told, pauses)
}

#[tokio::test]
async fn a_streamed_list_goes_on_as_a_watch_without_another_request() {
    let changed = typed("MODIFIED", "a", 8);
    let streamed = [
        &line("a", 5),
        MOVED,
        &line("b", 6),
        &changed,
        COMPLETE,
        &line("c", 10),
    ];
    let mut watch = watched(vec![lines(&streamed.concat())]);
    let expected = [
        "list",
        "listed a",
        "listed b",
        "listed a",
        "complete",
        "changed c",
    ];
    assert_eq!(told(&mut watch, 6).await.0, expected);
}

/// Proves: F-outage
#[rstest]
// kube's watcher asks for another stream before it tells that the first one has ended.
#[case::cut("", 1)]
#[case::ended_by_the_server(&ended(504), 0)]
#[tokio::test]
async fn a_streamed_list_that_fails_is_read_in_pages(#[case] end: &str, #[case] again: usize) {
    let page = r#"{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"b"},"spec":{"workload":{}}}]}"#;
    let streamed = lines(&(line("a", 5) + end));
    let more = lines(&line("c", 10));
    let rest = [answer("200", page), more];
    let answers = std::iter::repeat_n(streamed, 1 + again).chain(rest);
    let mut watch = watched(answers.collect());
    let expected = [
        "list",
        "listed a",
        "list",
        "listed b",
        "complete",
        "changed c",
    ];
    let (told, pauses) = told(&mut watch, 6).await;
    assert_eq!(told, expected);
    assert_eq!(pauses, [Duration::ZERO]);
}

/// Proves: F-outage
#[tokio::test]
async fn a_streamed_list_that_falls_silent_is_read_in_pages() {
    let api: Api<Maybe<Run>> = Api::all(silent());
    let mut watch = Watch::new(api, Config::default());
    let error = watch.read(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, WatchError::Endless), "{error}");
    assert_eq!(watch.failed(&error), Duration::ZERO);
    assert_eq!(watch.list, List::InPages);
}

/// The bookmark may come without the annotation that marks the end, and the watch go on behind it. So it will with the
/// next list.
/// Proves: F-outage
#[tokio::test]
async fn a_streamed_list_that_goes_on_without_its_end_is_read_in_pages_like_every_later_one() {
    let object = |uid: &str| {
        let text = format!(
            r#"{{"metadata":{{"name":"{uid}","uid":"{uid}"}},"spec":{{"workload":{{}}}}}}"#
        );
        Event::InitApply(serde_json::from_str::<Maybe<Run>>(&text).unwrap())
    };
    let mut watch = watched(Vec::new());
    let events = [Event::Init, object("a"), object("b"), object("a")].map(Ok);
    watch.events = stream::iter(events).boxed();
    for _ in 0..3 {
        watch.read(Duration::ZERO).await.unwrap();
    }
    let error = watch.read(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, WatchError::Endless), "{error}");
    watch.failed(&error);
    watch.begin(List::Streamed);
    assert_eq!(watch.list, List::InPages);
}

/// Proves: F-outage
#[rstest]
#[case::by_an_older_server(422)]
#[case::by_an_overloaded_one(500)]
#[tokio::test]
async fn where_a_streamed_list_is_refused_pages_are_read_at_once(#[case] code: u16) {
    let mut watch = watched(vec![failure(code), answer("200", EMPTY)]);
    let (told, pauses) = told(&mut watch, 2).await;
    assert_eq!(told, ["list", "complete"]);
    assert_eq!(pauses, [Duration::ZERO]);
}

/// Who may not watch may still list: a Run that is only listed holds its Workspace.
/// Proves: P-workspace-finalizer, F-outage
#[rstest]
#[case::forbidden(403)]
#[case::without_the_kind(404)]
#[tokio::test]
async fn where_pages_may_be_refused_too_the_next_try_is_after_a_pause(#[case] code: u16) {
    let mut watch = watched(vec![failure(code), answer("200", EMPTY)]);
    let (told, pauses) = told(&mut watch, 2).await;
    assert_eq!(told, ["list", "complete"]);
    assert!(pauses[0] > Duration::from_millis(500), "{pauses:?}");
}

/// Proves: F-outage
#[tokio::test]
async fn a_cut_watch_resumes_after_its_last_event_without_a_failure() {
    let whole = chunk(&line("a", 6));
    let half = chunk(&line("b", 7));
    let half = &half[..half.len() / 2];
    let sized = "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\nconnection: close\r\n\r\n";
    let cut = [
        // Ended within a chunk, between two of them, within a body of known length, and normally.
        format!("{CHUNKED}{whole}{half}"),
        format!("{CHUNKED}{whole}"),
        format!("{sized}{}", line("a", 6)),
        format!("{CHUNKED}{whole}0\r\n\r\n"),
    ];
    for first in cut {
        let next = lines(&line("b", 7));
        let answers = vec![refused(), answer("200", EMPTY), first.clone(), next];
        let (told, pauses) = told(&mut watched(answers), 4).await;
        assert_eq!(
            told,
            ["list", "complete", "changed a", "changed b"],
            "{first}"
        );
        assert_eq!(pauses.len(), 1, "that of the streamed list; {first}");
    }
}

/// Proves: F-outage, F-stale
#[rstest]
#[case::too_old_by_its_status(failure(410))]
#[case::too_old_by_a_line(lines(&ended(410)))]
#[case::a_line_that_is_none(lines("{\"type\":7}\n"))]
#[tokio::test]
async fn a_watch_that_may_miss_something_begins_with_a_list(#[case] watch: String) {
    let listed = lines(&(line("a", 5) + COMPLETE));
    let again = lines(&(line("b", 6) + COMPLETE));
    let mut watch = watched(vec![listed, watch, again]);
    let (told, pauses) = told(&mut watch, 6).await;
    let expected = [
        "list", "listed a", "complete", "list", "listed b", "complete",
    ];
    assert_eq!(told, expected);
    assert_eq!(pauses.len(), 1);
}

/// Proves: F-outage
#[tokio::test]
async fn after_five_errors_in_a_row_the_list_begins_again() {
    let listed = lines(&(line("a", 5) + COMPLETE));
    let errors = (0..5).map(|_| failure(500));
    let answers = [listed].into_iter().chain(errors).chain([lines(COMPLETE)]);
    let (told, pauses) = told(&mut watched(answers.collect()), 5).await;
    assert_eq!(told, ["list", "listed a", "complete", "list", "complete"]);
    assert_eq!(pauses.len(), 5);
    assert!(pauses[4] > pauses[0] * 4, "{pauses:?}");
}

/// Proves: F-undecodable
#[tokio::test]
async fn an_object_that_cannot_be_decoded_is_one_bad_item_and_no_error() {
    let bad =
        r#"{"type":"ADDED","object":{"metadata":{"name":"bad","resourceVersion":"10"},"spec":[]}}"#;
    let nameless = r#"{"type":"ADDED","object":{"metadata":{"name":7,"resourceVersion":"11"}}}"#;
    let streamed = format!("{COMPLETE}{bad}\n{nameless}\n{}", line("c", 12));
    let mut watch = watched(vec![lines(&streamed)]);
    let (told, pauses) = told(&mut watch, 4).await;
    assert_eq!(told, ["list", "complete", "changed bad", "changed c"]);
    assert!(pauses.is_empty(), "{pauses:?}");
}

/// Proves: F-outage
#[test]
fn errors_in_a_row_are_further_and_further_apart() {
    let (mut failures, mut now) = (Failures::default(), Instant::now());
    let mut pauses = Vec::new();
    for _ in 0..10 {
        let pause = failures.add(now);
        now += pause;
        pauses.push(pause);
    }
    assert!(pauses[0] < Duration::from_secs(2), "{pauses:?}");
    assert!(pauses[9] >= Duration::from_secs(30), "{pauses:?}");
    failures.add(now + LASTING);
    assert_eq!(failures.in_a_row, 1);
}
