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
    let key = about.key.clone().unwrap_or_default();
    let runs = stage.world.service.runs().await.into_iter();
    let runs: Vec<Value> = runs.filter(|run| run["idempotencyKey"] == *key).collect();
    let ids = runs.iter().filter_map(|run| run["runId"].as_str());
    let mut words: Vec<&str> = ids.chain([key.as_str()]).collect();
    if let Some(born) = &about.born {
        let life = &lives[born.life];
        let acts = life.acts.iter().map(|act| format!("{act:?}"));
        section(&mut story, "acts", acts);
        section(&mut story, "API server", audited(stage, &life.name));
        let last = history.of(&life.name).pop();
        let last = serde_json::to_string(&last).unwrap();
        section(&mut story, "last version", [last]);
        words.extend([born.uid.as_str(), &life.name]);
    }
    let about_it = |line: &String| words.iter().any(|word| line.contains(word));
    for log in stage.logs() {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let logged = text.lines().map(str::to_owned).filter(about_it);
        section(&mut story, &log.display().to_string(), logged);
    }
    let requests = stage.world.service.get("requests").await;
    let requests = requests
        .as_array()
        .into_iter()
        .flatten()
        .map(Value::to_string);
    section(
        &mut story,
        "requests at the service",
        requests.filter(about_it),
    );
    section(
        &mut story,
        "runs at the service",
        runs.iter().map(Value::to_string),
    );
    story
}

fn section(story: &mut String, title: &str, lines: impl IntoIterator<Item = String>) {
    let lines: Vec<String> = lines.into_iter().collect();
    let _ = writeln!(story, "--- {title} ({} lines)", lines.len());
    for line in &lines[lines.len().saturating_sub(LINES)..] {
        let _ = writeln!(story, "{line}");
    }
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
            && !["get", "list", "watch"]
                .map(Value::from)
                .contains(&entry["verb"])
    });
    let shown = |entry: Value| {
        let (object, body) = (&entry["objectRef"], entry["requestObject"].to_string());
        format!(
            "{} {} {} {}/{} -> {} {}",
            entry["stageTimestamp"],
            entry["userAgent"],
            entry["verb"],
            object["name"],
            object["subresource"],
            entry["responseStatus"]["code"],
            body.chars().take(600).collect::<String>(),
        )
    };
    about_it.map(shown).collect()
}
