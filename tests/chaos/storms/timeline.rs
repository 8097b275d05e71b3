//! The whole record of one object, to find out what went wrong.

use std::fmt::Write as _;

use serde_json::Value;

use super::environment::Stage;
use super::verdict::Finding;
use super::workload::Life;
use crate::support::History;

/// Lines of each source; the last ones are shown.
const LINES: usize = 120;

/// The actions, the API server's audit log, the operators' logs and the requests to the service.
pub(crate) async fn story(
    stage: &Stage,
    lives: &[Life],
    history: &History,
    about: &Finding,
) -> String {
    let mut story = format!("\n=== {}\n", about.what);
    let life = about.born.as_ref().map(|born| &lives[born.life]);
    let name = life.map(|life| life.name.clone());
    if let Some(life) = life {
        section(
            &mut story,
            "acts",
            &life
                .acts
                .iter()
                .map(|act| format!("{act:?}"))
                .collect::<Vec<_>>(),
        );
    }
    if let Some(name) = &name {
        section(&mut story, "API server", &audited(stage, name));
        let last = history.of(name).pop();
        let shown = serde_json::to_string(&last).unwrap();
        section(&mut story, "last version", &[shown]);
    }
    let uid = about.born.as_ref().map(|born| born.uid.clone());
    let key = about.key.clone().unwrap_or_default();
    let runs = stage.world.service.runs().await;
    let runs: Vec<&Value> = runs
        .iter()
        .filter(|r| r["idempotencyKey"] == *key)
        .collect();
    let ids: Vec<&str> = runs
        .iter()
        .filter_map(|run| run["runId"].as_str())
        .collect();
    let mut words: Vec<&str> = [uid.as_deref(), Some(&key), name.as_deref()]
        .into_iter()
        .flatten()
        .collect();
    words.extend(&ids);
    for log in stage.logs() {
        section(
            &mut story,
            &log.display().to_string(),
            &logged(&log, &words),
        );
    }
    let requests = stage.world.service.get("requests").await;
    let about_it = |request: &&Value| {
        request["idempotencyKey"] == *key
            || request["runId"]
                .as_str()
                .is_some_and(|id| ids.contains(&id))
    };
    let requests = requests.as_array().cloned().unwrap_or_default();
    let requests: Vec<_> = requests.iter().filter(about_it).map(asked).collect();
    section(&mut story, "requests at the service", &requests);
    let runs: Vec<_> = runs.iter().map(ToString::to_string).collect();
    section(&mut story, "runs at the service", &runs);
    story
}

fn section(story: &mut String, title: &str, lines: &[String]) {
    let _ = writeln!(story, "--- {title} ({} lines)", lines.len());
    for line in &lines[lines.len().saturating_sub(LINES)..] {
        let _ = writeln!(story, "{line}");
    }
}

fn asked(request: &Value) -> String {
    format!(
        "{} {} {} -> {} (fault {}, cut {}, {} ms)",
        request["at"],
        request["operation"],
        request["path"],
        request["status"],
        request["fault"],
        request["cut"],
        request["millis"]
    )
}

fn logged(log: &std::path::Path, words: &[&str]) -> Vec<String> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let about_it = |line: &&str| words.iter().any(|word| line.contains(word));
    text.lines().filter(about_it).map(str::to_owned).collect()
}

/// The requests that changed the object, as the audit log has them.
fn audited(stage: &Stage, name: &str) -> Vec<String> {
    let log = stage.world.control_plane.audit_log().unwrap();
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let entries = text.lines().filter(|line| line.contains(name));
    let entries = entries.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let about_it = entries.filter(|entry| {
        let object = &entry["objectRef"];
        object["namespace"] == *stage.world.namespace
            && object["resource"] == "runs"
            && (object["name"] == *name || entry["requestObject"]["metadata"]["name"] == *name)
            && !["get", "list", "watch"].contains(&entry["verb"].as_str().unwrap_or_default())
    });
    let shown = |entry: Value| {
        let body: String = entry["requestObject"]
            .to_string()
            .chars()
            .take(600)
            .collect();
        format!(
            "{} {} {} {}/{} -> {} {body}",
            entry["stageTimestamp"].as_str().unwrap_or_default(),
            entry["userAgent"].as_str().unwrap_or("operator"),
            entry["verb"].as_str().unwrap_or_default(),
            entry["objectRef"]["name"].as_str().unwrap_or_default(),
            entry["objectRef"]["subresource"]
                .as_str()
                .unwrap_or_default(),
            entry["responseStatus"]["code"],
        )
    };
    about_it.map(shown).collect()
}
