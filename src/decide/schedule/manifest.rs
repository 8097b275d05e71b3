//! The Run of a tick: its name, its key and the object that is created.

use std::collections::BTreeMap;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::api::schedule::Tick;
use crate::api::{Run, RunSchedule, names};

use super::source::Source;

/// Minutes in UTC, in which no hour comes twice.
const MINUTE: &str = "%Y%m%d%H%M";

/// A Run as it is created.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    api_version: String,
    kind: String,
    pub metadata: ObjectMeta,
    /// As text: a workload may be as deep as the API server takes.
    spec: BTreeMap<String, Box<RawValue>>,
}

/// As in `202611300217`, and `202611300217.a2` of the second attempt.
fn label(tick: Tick) -> String {
    let minute = tick.at.to_zoned(TimeZone::UTC).strftime(MINUTE);
    match tick.attempt {
        1 => minute.to_string(),
        attempt => format!("{minute}.a{attempt}"),
    }
}

/// The name of a tick's Run: that of the schedule, and the tick.
pub fn name_of(schedule: &RunSchedule, tick: Tick) -> String {
    format!("{}-{}", schedule.name_any(), label(tick))
}

/// The tick of a Run with this name, if it has one.
pub(super) fn tick_of(run: &str, schedule: &str) -> Option<Tick> {
    let label = run.strip_prefix(schedule)?.strip_prefix('-')?;
    let (minute, attempt) = label.split_once(".a").unwrap_or((label, "1"));
    let time = DateTime::strptime(MINUTE, minute).ok()?;
    let at = time.to_zoned(TimeZone::UTC).ok()?.timestamp();
    let tick = Tick {
        at,
        attempt: attempt.parse().ok()?,
    };
    // Written in this one way only.
    (self::label(tick) == label).then_some(tick)
}

/// The Run of a tick.
pub fn of_tick(
    schedule: &RunSchedule,
    source: &Source,
    tick: Tick,
) -> serde_json::Result<Manifest> {
    let mut manifest = owned(schedule, source)?;
    manifest.metadata.name = Some(name_of(schedule, tick));
    let annotations = manifest.metadata.annotations.get_or_insert_default();
    annotations.insert(names::SCHEDULED_ANNOTATION.to_owned(), tick.at.to_string());
    let key = format!("{}.{}", schedule.uid().unwrap_or_default(), label(tick));
    manifest
        .spec
        .insert("idempotencyKey".to_owned(), to_raw_value(&key)?);
    Ok(manifest)
}

/// What a trial creates: the Run of any tick, with a random name and without a key of its own.
pub fn trial(schedule: &RunSchedule, source: &Source) -> serde_json::Result<Manifest> {
    let mut manifest = owned(schedule, source)?;
    manifest.metadata.generate_name = Some(format!("{}-", schedule.name_any()));
    Ok(manifest)
}

/// A Run beside the schedule's ticks. It doesn't hold up a deletion of the schedule in the foreground: that takes a
/// permission that who triggers it may lack.
pub fn beside(schedule: &RunSchedule, source: &Source) -> serde_json::Result<Manifest> {
    let mut manifest = trial(schedule, source)?;
    for owner in manifest.metadata.owner_references.iter_mut().flatten() {
        owner.block_owner_deletion = None;
    }
    Ok(manifest)
}

/// A Run of a template that no schedule owns.
pub fn of_template(source: &Source) -> serde_json::Result<Manifest> {
    let Source { body, template } = source;
    let metadata = &body.metadata;
    let mut annotations = metadata.annotations.clone();
    if let Some(template) = template {
        let origin = format!("{}@{}", template.name, template.generation);
        annotations.insert(names::TEMPLATE_ANNOTATION.to_owned(), origin);
    }
    Ok(Manifest {
        api_version: Run::api_version(&()).into_owned(),
        kind: Run::kind(&()).into_owned(),
        metadata: ObjectMeta {
            labels: Some(metadata.labels.clone()).filter(|all| !all.is_empty()),
            annotations: Some(annotations).filter(|all| !all.is_empty()),
            ..ObjectMeta::default()
        },
        spec: serde_json::from_str(body.spec.as_str())?,
    })
}

fn owned(schedule: &RunSchedule, source: &Source) -> serde_json::Result<Manifest> {
    let mut manifest = of_template(source)?;
    manifest.metadata.namespace = schedule.namespace();
    manifest.metadata.owner_references = Some(vec![OwnerReference {
        api_version: RunSchedule::api_version(&()).into_owned(),
        kind: RunSchedule::kind(&()).into_owned(),
        name: schedule.name_any(),
        uid: schedule.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }]);
    Ok(manifest)
}
