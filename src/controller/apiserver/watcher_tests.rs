use kube::ResourceExt;

use crate::api::Run;

use super::*;

#[test]
fn a_list_that_is_gone_again_and_again_is_repeated_less_and_less_often() {
    let mut trouble = Trouble::new();
    let mut pauses = Vec::new();
    let mut now = Instant::now();
    for _ in 0..10 {
        let pause = trouble.pause("Run", true, now);
        now += pause;
        pauses.push(pause);
    }
    assert!(pauses.is_sorted(), "{pauses:?}");
    assert!(pauses[0] <= Duration::from_secs(1));
    assert_eq!(pauses[9], LONGEST);
    let pause = trouble.pause("Run", true, now + LASTING);
    assert!(pause <= Duration::from_secs(1));
}

#[test]
fn failures_in_a_row_are_further_and_further_apart() {
    let mut trouble = Trouble::new();
    let now = Instant::now();
    let pauses: Vec<_> = (1..=4)
        .map(|failures| {
            trouble.failures = failures;
            trouble.pause("Run", false, now)
        })
        .collect();
    assert!(pauses.is_sorted() && pauses[0] < pauses[3], "{pauses:?}");
}

fn listed(status: Status) -> WatchError {
    WatchError::List(kube::Error::Api(Box::new(status)))
}

#[test]
fn a_list_or_watch_that_is_not_found_is_of_a_kind_that_the_api_server_does_not_know() {
    // As it answers: a bare 404, which is no Status of its own.
    let bare = Status::failure("404 page not found", "").with_code(404);
    assert!(listed(bare.clone()).is_unknown_kind());
    assert!(WatchError::Begin(kube::Error::Api(Box::new(bare))).is_unknown_kind());
    let forbidden = Status::failure("forbidden", "Forbidden").with_code(403);
    assert!(!listed(forbidden).is_unknown_kind());
}

fn event(text: &str, version: &mut String) -> Result<Option<Event<Guarded<Run>>>, WatchError> {
    let line: Line<'_> = serde_json::from_str(text).unwrap();
    read(&line, version)
}

#[test]
fn a_line_that_nobody_can_decode_is_one_bad_item_and_the_watch_goes_on() {
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
