use std::time::Duration;

use kube::{Api, ResourceExt};
use rstest::rstest;

use crate::api::Run;
use crate::controller::apiserver::{answer, loopback};

use super::*;

/// All Runs of a server with these answers.
pub(super) fn source(answers: Vec<String>) -> Source<Run> {
    Source::new(Api::all(loopback(answers)), Duration::from_secs(100))
}

fn watched(answers: Vec<String>) -> Watcher<Run> {
    Watcher::new(source(answers))
}

/// A line of a watch with a Run of this name.
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

/// The answer of a watch with these lines.
pub(super) fn watch(lines: &str) -> String {
    format!("{CHUNKED}{}0\r\n\r\n", chunk(lines))
}

/// The answer to a streamed list of an API server that has none.
pub(super) fn refused() -> String {
    status(422)
}

fn status(code: u16) -> String {
    let body = format!(
        r#"{{"kind":"Status","status":"Failure","message":"sendInitialEvents is forbidden","code":{code}}}"#
    );
    answer(&code.to_string(), &body)
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";
pub(super) const EMPTY: &str = r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#;
/// The line after which a streamed list is complete.
const COMPLETE: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}
"#;
/// One that says nothing of a list.
const MOVED: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}
"#;

/// The next events, in words.
async fn told(watcher: &mut Watcher<Run>, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    while told.len() < count {
        told.push(match watcher.next().await.unwrap() {
            Event::Init => "list".to_owned(),
            Event::InitApply(run) => format!("listed {}", run.name_any()),
            Event::InitDone => "complete".to_owned(),
            Event::Apply(run) => format!("changed {}", run.name_any()),
            Event::Delete(run) => format!("deleted {}", run.name_any()),
        });
    }
    told
}

#[tokio::test]
async fn a_streamed_list_goes_on_as_a_watch_without_another_request() {
    let changed = typed("MODIFIED", "a", 8);
    let lines = [
        &line("a", 5),
        MOVED,
        &line("b", 6),
        &changed,
        COMPLETE,
        &line("c", 10),
    ];
    let mut watcher = watched(vec![watch(&lines.concat())]);
    let expected = [
        "list",
        "listed a",
        "listed b",
        "listed a",
        "complete",
        "changed c",
    ];
    assert_eq!(told(&mut watcher, 6).await, expected);
}

/// Proves: F-refusing, P-list-streamed
#[rstest]
#[case::cut("")]
#[case::ended_by_the_server(
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"message\":\"Too large resource version\",\"code\":504}}\n"
)]
#[case::changed_meanwhile(&typed("DELETED", "a", 8))]
#[case::complete_at_no_version(&COMPLETE.replace('9', ""))]
#[tokio::test]
async fn a_streamed_list_that_fails_is_read_in_pages(#[case] end: &str) {
    let page = r#"{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"b"},"spec":{"workload":{}}}]}"#;
    let streamed = watch(&(line("a", 5) + end));
    let more = watch(&line("c", 10));
    let mut watcher = watched(vec![streamed, answer("200", page), more]);
    let expected = [
        "list",
        "listed a",
        "list",
        "listed b",
        "complete",
        "changed c",
    ];
    assert_eq!(told(&mut watcher, 6).await, expected);
}

/// Proves: P-list-streamed
#[rstest]
#[case::by_an_older_server(422)]
#[case::by_an_overloaded_one(500)]
#[tokio::test]
async fn where_a_streamed_list_is_refused_pages_are_read(#[case] code: u16) {
    let mut watcher = watched(vec![status(code), answer("200", EMPTY)]);
    assert_eq!(told(&mut watcher, 2).await, ["list", "complete"]);
}

/// Who may not watch may still list: a Run that is only listed holds its Workspace.
/// Proves: P-workspace-finalizer, P-list-streamed
#[tokio::test]
async fn where_a_watch_is_forbidden_the_next_try_reads_pages() {
    let mut watcher = watched(vec![status(403), answer("200", EMPTY)]);
    let error = watcher.next().await.unwrap_err();
    assert_eq!(error.code(), Some(403));
    assert_eq!(told(&mut watcher, 2).await, ["list", "complete"]);
}

#[rstest]
#[case(401)]
#[case(404)]
#[tokio::test]
async fn what_would_refuse_pages_too_costs_one_request(#[case] code: u16) {
    let mut watcher = watched(vec![status(code), watch(COMPLETE)]);
    let error = watcher.next().await.unwrap_err();
    assert_eq!(error.code(), Some(code));
    // The second answer is a streamed list again.
    assert_eq!(told(&mut watcher, 2).await, ["list", "complete"]);
}

/// Proves: F-refusing
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
        let mut met = watched(vec![refused(), answer("200", EMPTY), watch.clone(), next]);
        let mut names = Vec::new();
        while names.len() < 2 {
            let seen = met.next().await;
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
