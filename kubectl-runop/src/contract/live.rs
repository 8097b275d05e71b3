//! The public part of a service: two requests without a token, and one finding for each statement.

use std::time::Duration;

use serde_json::Value;

use run_operator::api::Contract;
use run_operator::checks::{Check, Finding, NO_ANSWER, Target, first};
use run_operator::decide::failure::Failure;
use run_operator::decide::truncate::cut;
use run_operator::service::{Operation, RawAnswer};

/// Time limit of a call, even if the contract file allows more: a person waits for the command.
const LONGEST_CALL: Duration = Duration::from_mins(1);
/// Maximum number of fields of an answer that are named, and bytes of each.
const NAMED_FIELDS: usize = 8;
const SHOWN: usize = 64;

const PROBLEM: &str = "application/problem+json";

const REACHED: Check = Check::new("version.answered", "GET /version is public");
const JSON: Check = Check::new("version.json", "it answers JSON");
const NAMED: Check = Check::new("version.named", "it names a version");
const ACCEPTED: Check = Check::new("version.accepted", "the version is accepted");
const VERSION_ID: Check = Check::new("version.requestId", "it has an X-Request-ID");
const REFUSED: Check = Check::new("workspace.refused", "without a token comes a 401");
const PROBLEM_BODY: Check = Check::new("workspace.problem", "the refusal is a problem");
const PROBLEM_FIELDS: Check = Check::new("workspace.problemFields", "the problem has its fields");
const WORKSPACE_ID: Check = Check::new("workspace.requestId", "it has an X-Request-ID");

/// Findings from the answer to `GET /version` (rules 3, 11 and 13), and whether there was one.
pub(crate) async fn version(target: &Target) -> (Vec<Finding>, bool) {
    let most = target.contract.limits().body_bytes;
    let asked = target.client.raw(Operation::Version, "/version", most);
    let answer = match bounded(asked).await {
        Ok(answer) => answer,
        Err(why) => {
            let todo = "Check the base URL, the network, and the CA certificates (--ca-file).";
            let mut findings = vec![REACHED.fail(sentence(&why), todo)];
            let rest = [JSON, NAMED, ACCEPTED, VERSION_ID];
            findings.extend(rest.map(|check| check.not_tried(NO_ANSWER)));
            return (findings, false);
        }
    };
    let mut findings = vec![reached(&answer)];
    if answer.is_success() {
        findings.extend(document(&answer, &target.contract));
    } else {
        let rest = [JSON, NAMED, ACCEPTED];
        findings.extend(rest.map(|check| check.not_tried("the answer is no success")));
    }
    findings.push(request_id(VERSION_ID, &answer));
    (findings, true)
}

/// Findings from the answer to `GET /workspaces/current` without a token (rules 3, 8 and 11), which is asked for if
/// `GET /version` was `answered`.
pub(super) async fn workspace(target: &Target, answered: bool) -> Vec<Finding> {
    let unanswered = |first: Finding| -> Vec<Finding> {
        let rest = [PROBLEM_BODY, PROBLEM_FIELDS, WORKSPACE_ID];
        let rest = rest.map(|check| check.not_tried(NO_ANSWER));
        [first].into_iter().chain(rest).collect()
    };
    if !answered {
        return unanswered(REFUSED.not_tried("GET /version had no answer"));
    }
    let (operation, path) = (Operation::CurrentWorkspace, "/workspaces/current");
    let most = target.contract.limits().body_bytes;
    let asked = target.client.raw(operation, path, most);
    let answer = match bounded(asked).await {
        Ok(answer) => answer,
        Err(why) => {
            let todo = "GET /version was answered, so check the proxies in between.";
            return unanswered(REFUSED.fail(sentence(&why), todo));
        }
    };
    let mut findings = vec![refused(&answer)];
    if answer.status < 400 {
        let rest = [PROBLEM_BODY, PROBLEM_FIELDS];
        findings.extend(rest.map(|check| check.not_tried("the answer is no refusal")));
    } else {
        findings.extend(problem(&answer));
    }
    findings.push(request_id(WORKSPACE_ID, &answer));
    findings
}

/// The answer, or the reason why there is none.
pub(super) async fn bounded(
    call: impl Future<Output = Result<RawAnswer, Failure>>,
) -> Result<RawAnswer, String> {
    match tokio::time::timeout(LONGEST_CALL, call).await {
        Ok(answer) => answer.map_err(|failure| failure.message),
        Err(_) => Err(format!(
            "failed to get an answer from the service within {} s",
            LONGEST_CALL.as_secs()
        )),
    }
}

fn reached(answer: &RawAnswer) -> Finding {
    let todo = match answer.status {
        200..=299 => return REACHED.ok(in_short(answer)),
        300..=399 => {
            "Redirects are not followed: name the address that it leads to in the base URL, or correct the scheme."
        }
        401 | 403 => {
            "It must be public (rule 3): ask the service's operators, or those of a proxy in front of it."
        }
        404 | 405 => "Check the base URL: it must contain the version segment, such as /api/v1.",
        429 | 500..=599 => "Try again later; then ask the service's operators.",
        _ => "Check the base URL.",
    };
    REACHED.fail(in_short(answer), todo)
}

fn document(answer: &RawAnswer, contract: &Contract) -> [Finding; 3] {
    let Some(document) = answer.json() else {
        let saw = match answer.body {
            None => "The answer is larger than the contract file's limits.bodyBytes.".to_owned(),
            Some(_) => format!("{} Its body can't be read as JSON.", in_short(answer)),
        };
        let todo = "Check the base URL: a web page or a proxy may answer there.";
        let [named, accepted] = [NAMED, ACCEPTED].map(|c| c.not_tried("there is no document"));
        return [JSON.fail(saw, todo), named, accepted];
    };
    let json = JSON.ok(shape(&document));
    let Some(version) = RawAnswer::version(&document, contract) else {
        let places = contract.version_pointers().join(", ");
        let saw = format!("There is nothing at {places}. {}", shape(&document));
        let named = NAMED.fail(saw, "Correct version.pointers in the contract file.");
        return [json, named, ACCEPTED.not_tried("there is no version")];
    };
    let named = NAMED.ok(format!("It is {}.", cut(&version, SHOWN)));
    [json, named, ACCEPTED.version(Some(&version), contract)]
}

fn refused(answer: &RawAnswer) -> Finding {
    let todo = match answer.status {
        401 => return REFUSED.ok(in_short(answer)),
        200..=299 => {
            "It answers without a token (rule 3). Report it to the service's operators, and to those of a proxy in front of it."
        }
        300..=399 => {
            "A program can't follow a login page: name the API's own address in the base URL."
        }
        404 | 405 => "Check the base URL: it must contain the version segment, such as /api/v1.",
        429 | 500..=599 => "Try again later; then ask the service's operators.",
        _ => {
            "A token that expired must be a 401 (rule 3): with another status Runs don't wait for a new one."
        }
    };
    REFUSED.fail(in_short(answer), todo)
}

fn problem(answer: &RawAnswer) -> [Finding; 2] {
    let todo = "Errors are application/problem+json (rule 8); without it codes can't be distinguished. A proxy may have answered.";
    let body = if answer.media_type.as_deref() == Some(PROBLEM) {
        PROBLEM_BODY.ok(in_short(answer))
    } else {
        PROBLEM_BODY.fail(in_short(answer), todo)
    };
    let Some(Value::Object(problem)) = answer.json() else {
        return [
            body,
            PROBLEM_FIELDS.fail("The body is no JSON object.", todo),
        ];
    };
    let holds = |field: &str, fits: fn(&Value) -> bool| problem.get(field).is_some_and(fits);
    let missing: Vec<&str> = [
        ("code", holds("code", is_text)),
        ("requestId", holds("requestId", is_text)),
        ("retryable", holds("retryable", Value::is_boolean)),
        ("title", holds("title", Value::is_string)),
        ("params", problem.get("params").is_none_or(Value::is_object)),
    ]
    .into_iter()
    .filter_map(|(field, holds)| (!holds).then_some(field))
    .collect();
    let fields = if missing.is_empty() {
        let code = problem
            .get("code")
            .and_then(Value::as_str)
            .unwrap_or_default();
        PROBLEM_FIELDS.ok(format!("Its code is {:?}.", cut(code, SHOWN)))
    } else {
        PROBLEM_FIELDS.fail(
            format!(
                "Missing or of the wrong type: {}. {}",
                missing.join(", "),
                shape(&Value::Object(problem))
            ),
            "Runs branch on the code, and retryable decides about retries (rules 8 and 10): ask the service's operators.",
        )
    };
    [body, fields]
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn request_id(check: Check, answer: &RawAnswer) -> Finding {
    match &answer.request_id {
        Some(id) => check.ok(format!("It is {id}.")),
        None => check.fail(
            "There is none, or one that can't be shown.",
            "Every answer has one (rule 11), 1 to 128 visible ASCII characters; without it support can't find a request.",
        ),
    }
}

/// The status and the kind of body.
pub(super) fn in_short(answer: &RawAnswer) -> String {
    match &answer.media_type {
        Some(media_type) => format!("HTTP {}, {}.", answer.status, cut(media_type, SHOWN)),
        None => format!("HTTP {}, without a Content-Type.", answer.status),
    }
}

/// The fields of a document, only by name.
pub(super) fn shape(document: &Value) -> String {
    let Value::Object(fields) = document else {
        return "It is no JSON object.".to_owned();
    };
    if fields.is_empty() {
        return "Its object is empty.".to_owned();
    }
    let names = fields.keys().map(|name| format!("{:?}", cut(name, SHOWN)));
    format!("Its fields are {}.", first(NAMED_FIELDS, names))
}

/// An error's text as a sentence.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}
