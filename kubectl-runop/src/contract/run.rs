//! One real run, read with a Workspace's token: what the operator would make of the answer.

use std::path::Path;

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::value::RawValue;

use run_operator::api::contract::{RunDetails, StateClass, first_at};
use run_operator::api::status::Phase;
use run_operator::api::{Contract, Workspace};
use run_operator::checks::{Check, Finding, Target, Verdict, bounded as by_api_server};
use run_operator::contract_file::read_up_to;
use run_operator::decide::console::https;
use run_operator::decide::truncate::escaped;
use run_operator::service::{BaseUrl, Credentials, RunId, Token, WorkspaceId};
use run_operator::util::failed;

use crate::cluster::Cluster;
use crate::error::ToolError;

use super::live::{bounded, in_short, sentence, shape};

/// Bytes of a file with a token.
const LARGEST_TOKEN: u64 = 64 << 10;
const SHOWN: usize = 256;

const ANSWERED: Check = Check::new("run.answered", "GET /runs/{id} is answered");
const ID: Check = Check::new("run.id", "it names its id");
const STATE: Check = Check::new("run.state", "it names its state");
const PHASE: Check = Check::new("run.phase", "the state is mapped");
const DETAILS: Check = Check::new("run.details", "it has what else the contract file names");

/// The token in a file, for the workspace that it is bound to.
pub(super) fn by_file(file: &Path, contract: &Contract) -> Result<Credentials, ToolError> {
    let what = format!("use the token in {}", file.display());
    let bytes = read_up_to(file, LARGEST_TOKEN).map_err(failed(what.clone()))?;
    Ok(Credentials {
        token: Token::parse(&bytes, contract).map_err(failed(what))?,
        workspace_id: None,
    })
}

/// The token of a Workspace, which is sent only to the Workspace's own base URL.
pub(super) async fn by_workspace(
    cluster: &Cluster,
    name: &str,
    target: &Target,
) -> Result<Credentials, ToolError> {
    let client = || cluster.client.clone();
    let workspaces: Api<Workspace> = Api::namespaced(client(), &cluster.namespace);
    let workspace = by_api_server(workspaces.get(name)).await?;
    let status = workspace.status.as_ref();
    let own = status.and_then(|status| status.base_url.as_ref());
    let own = own.or(workspace.spec.base_url.as_ref());
    if own.and_then(|url| BaseUrl::normalised(url)).as_deref() != Some(target.base_url.as_str()) {
        return Err(ToolError::usage(format!(
            "the Workspace {name} has the base URL {}, so its token is not sent to {}; with another token use --token-file",
            own.map_or("none", String::as_str),
            target.base_url
        )));
    }
    let (secret, key) = workspace.spec.token_secret();
    let secrets: Api<Secret> = Api::namespaced(client(), &cluster.namespace);
    let data = by_api_server(secrets.get(secret)).await?.data;
    let bytes = data.unwrap_or_default().remove(key);
    let bytes =
        bytes.ok_or_else(|| ToolError::usage(format!("the Secret {secret} has no key {key}")))?;
    let what = format!("use the token in the Secret {secret}");
    let id = workspace.spec.workspace_id.as_deref();
    Ok(Credentials {
        token: Token::parse(&bytes.0, &target.contract).map_err(failed(what))?,
        workspace_id: id
            .map(WorkspaceId::parse)
            .transpose()
            .map_err(failed("use spec.workspaceID"))?,
    })
}

/// Findings from the answer to `GET /runs/{runId}`.
pub(super) async fn findings(target: &Target, who: &Credentials, id: &RunId) -> Vec<Finding> {
    let untried = |why: &str| [ID, STATE, PHASE].map(|check| check.not_tried(why));
    let answer = match bounded(target.client.raw_run(who, id)).await {
        Ok(answer) => answer,
        Err(why) => {
            let todo = "Check the base URL, the network, and the CA certificates (--ca-file).";
            let first = ANSWERED.fail(sentence(&why), todo);
            return [first]
                .into_iter()
                .chain(untried("there was no answer"))
                .collect();
        }
    };
    let document = answer.text();
    let document: Option<&RawValue> = document
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok());
    let Some(document) = document.filter(|_| answer.is_success()) else {
        let todo = match answer.status {
            401 | 403 => "Check the token, and the workspace that it is for.",
            404 => {
                "Check the id; a 404 counts as \"this run does not exist\" only with a code of codes.runNotFound."
            }
            _ => "It must be JSON, in at most limits.bodyBytes bytes.",
        };
        let first = ANSWERED.fail(in_short(&answer), todo);
        return [first]
            .into_iter()
            .chain(untried("there is no run in the answer"))
            .collect();
    };
    let mut findings = vec![ANSWERED.ok(in_short(&answer))];
    let of = target.contract.in_force();
    findings.push(match first_at(document, &of.run.id_pointers) {
        Some((at, found)) if found == id.as_str() => ID.ok(place(&found, at)),
        Some((at, found)) => ID.fail(
            format!("{} That is not the id that was asked for.", place(&found, at)),
            "Correct run.idPointers in the contract file: such an answer is a ContractViolation.",
        ),
        None => ID.fail(
            nothing(&of.run.id_pointers, answer.json().as_ref()),
            "Correct run.idPointers in the contract file: a create whose answer names no id is a ContractViolation.",
        ),
    });
    findings.extend(match first_at(document, &of.run.state_pointers) {
        Some((at, state)) => [STATE.ok(place(&state, at)), phase(&target.contract, &state)],
        None => [
            STATE.fail(
                nothing(&of.run.state_pointers, answer.json().as_ref()),
                "Correct run.statePointers in the contract file: without a state no Run ends.",
            ),
            PHASE.not_tried("there is no state"),
        ],
    });
    let told = answer.details(&target.contract).unwrap_or_default();
    findings.extend(details(&target.contract, &told));
    findings
}

/// What a Run's status would show, where the contract file names more than id and state. What isn't there yet may come
/// with the run's end.
fn details(contract: &Contract, told: &RunDetails) -> Option<Finding> {
    let fields = contract.in_force().run.details();
    let named = fields.filter(|(_, pointers)| !pointers.is_empty());
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for (field, _) in named {
        match shown(&field, told) {
            Some(found) => there.push(format!("{field} is {:?}", escaped(&found, SHOWN))),
            None => missing.push(field),
        }
    }
    let there = (!there.is_empty()).then(|| format!("{}.", there.join("; ")));
    match (there, missing.is_empty()) {
        (None, true) => None,
        (Some(there), true) => Some(DETAILS.ok(there)),
        (there, false) => {
            let saw = format!("There is nothing to show for {}.", missing.join(", "));
            let saw = [Some(saw), there].into_iter().flatten();
            let saw = saw.collect::<Vec<_>>().join(" ");
            let todo = "Correct these pointers in the contract file, unless the service has the value only later: \
                a percentage of 0 to 100, or an https URL as the console page.";
            Some(DETAILS.finding(Verdict::Warn, saw, Some(todo)))
        }
    }
}

/// What it shows of a field of the contract file.
fn shown(field: &str, told: &RunDetails) -> Option<String> {
    match field {
        "run.consoleURLPointers" => told.console_url.clone().filter(|url| https(url).is_some()),
        "run.progressPercentPointers" => told.percent.map(|percent| percent.to_string()),
        "run.progressMessagePointers" => told.message.clone(),
        "run.failurePointers" => told.failure.clone(),
        result => {
            let name = result.strip_prefix("run.resultPointers.")?;
            told.results.get(name).cloned()
        }
    }
}

fn place(value: &str, at: &str) -> String {
    format!("{:?}, at {}.", escaped(value, SHOWN), escaped(at, SHOWN))
}

fn nothing(pointers: &[String], answer: Option<&serde_json::Value>) -> String {
    let fields = answer.map(shape).unwrap_or_default();
    format!("There is nothing at {}. {fields}", pointers.join(", "))
}

fn phase(contract: &Contract, state: &str) -> Finding {
    let class = contract.state(state);
    let lists = contract.in_force().states.lists();
    let list = lists.iter().find(|(.., of)| *of == class);
    let phase = match class {
        StateClass::Cancelling => Phase::Cancelling,
        class => class.terminal().unwrap_or(Phase::Active),
    };
    match list {
        Some((list, ..)) => PHASE.ok(format!(
            "It is in the list {list}: the phase is {}.",
            phase.as_str()
        )),
        None => PHASE.fail(
            format!("It is in no list, so the phase is {}.", phase.as_str()),
            "Add it to the list of the contract file's states that it belongs to.",
        ),
    }
}
