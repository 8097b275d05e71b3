//! What is wrong with a schedule or its template shows at once, and stops nothing once it is mended.

use rstest::rstest;
use run_operator::api::conditions::whole_seconds;
use run_operator::api::{EventReason, RunTemplate};
use serde_json::{Value, json};

use super::world::{World, time};

fn train(parameters: &Value, spec: &Value) -> RunTemplate {
    let mut full =
        json!({"workload": {"image": "ghcr.io/acme/train:1.4", "args": ["$(params.epochs)"]}});
    for (field, value) in spec.as_object().unwrap() {
        full[field] = value.clone();
    }
    let body = json!({"parameters": parameters, "template": {"spec": full}});
    let mut template = RunTemplate::new("train", serde_json::from_value(body).unwrap());
    template.metadata.generation = Some(3);
    template
}

fn epochs() -> Value {
    json!([{"name": "epochs", "type": "integer"}])
}

/// Uses the `RunTemplate` train with these values.
fn using(parameters: &Value) -> Value {
    json!({"template": null, "templateRef": {"name": "train"}, "parameters": parameters})
}

/// Why it is stalled, by reason and the beginning of the message.
fn assert_stalled(world: &World, reason: &str, message: &str) {
    let shown = world.stalled().unwrap();
    assert_eq!(shown.0, reason);
    assert!(shown.1.starts_with(message), "{}", shown.1);
    assert_eq!(world.ready(), ("False".to_owned(), reason.to_owned()));
}

/// Proves: P-schedule-time
#[rstest]
#[case::zone(json!({"timeZone": "Mars/Phobos"}),
    r#"spec.timeZone: the IANA database has no "Mars/Phobos"; Europe/Berlin would be one."#)]
#[case::six_fields(json!({"schedules": ["0 17 2 * * *"]}),
    r#"spec.schedules: "0 17 2 * * *" is no schedule of five fields, as in "17 2 * * *": "#)]
#[case::zone_inside(json!({"schedules": ["TZ=UTC 17 2 * * *"]}),
    r#"spec.schedules: "TZ=UTC 17 2 * * *" is no schedule of five fields, as in "17 2 * * *": the time zone belongs into spec.timeZone"#)]
#[case::never(json!({"schedules": ["0 0 30 2 *"]}),
    r#"spec.schedules: "0 0 30 2 *" is no schedule of five fields, as in "17 2 * * *": "#)]
#[case::second_of_two(json!({"schedules": ["0 * * * *", "hourly"]}),
    r#"spec.schedules: "hourly" is no schedule of five fields, as in "17 2 * * *": "#)]
fn a_schedule_that_cannot_be_read_is_stalled_until_it_is_mended(
    #[case] spec: Value,
    #[case] message: &str,
) {
    let mut world = World::new(&spec);
    assert_stalled(&world, "ScheduleInvalid", message);
    assert_eq!(world.status().next_schedule_time, None);
    assert_eq!(world.at("01:00:00").log(), "");
    world.edit(&json!({"schedules": ["0 * * * *"], "timeZone": null}));
    assert_eq!(world.stalled(), None);
    assert_eq!(world.at("02:00:00").log(), "created 0200");
}

/// Proves: P-template
#[rstest]
#[case::missing(json!({}), r#"the parameter "epochs" has no default: give it a value."#)]
#[case::unknown(json!({"epochs": "1", "rate": "2"}),
    r#"the template has no parameter "rate"; it has epochs."#)]
#[case::another_type(json!({"epochs": "ten"}),
    r#"the parameter "epochs" is an integer, and its value is none."#)]
fn parameters_that_do_not_fit_stall_the_schedule(#[case] given: Value, #[case] message: &str) {
    let mut world = World::unseen("00:30:00", &using(&given));
    world.template = Some(train(&epochs(), &json!({})));
    assert_eq!(world.at("01:00:00").log(), "");
    let message = format!("spec.parameters with RunTemplate train: {message}");
    assert_stalled(&world, "TemplateInvalid", &message);
    world.edit(&json!({"parameters": {"epochs": "10"}}));
    assert_eq!(world.stalled(), None);
    // It was to be created all the while.
    assert_eq!(world.log(), "created 0100");
    let run = world.named("0100");
    assert!(run.spec.workload.as_str().contains(r#""args":[10]"#));
    let annotations = run.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["run-operator.dev/template"], "train@3");
}

/// Proves: P-template
#[test]
fn a_template_that_does_not_exist_is_waited_for() {
    let mut world = World::new(&using(&json!({"epochs": "10"})));
    let message = "spec.templateRef: there is no RunTemplate train in this namespace that can be read. \
                   Create it, or name another.";
    assert_stalled(&world, "TemplateNotFound", message);
    world.template = Some(train(&epochs(), &json!({})));
    assert_eq!(world.at("01:00:00").log(), "created 0100");
    assert_eq!(world.stalled(), None);
    assert_eq!(world.status().template_generation, Some(3));
}

/// Proves: P-template
#[rstest]
fn a_template_has_nothing_that_is_not_the_schedules_to_give(
    #[values("suspend", "cancel", "idempotencyKey", "managedBy")] field: &str,
) {
    let mut world = World::unseen("00:30:00", &using(&json!({"epochs": "10"})));
    world.template = Some(train(&epochs(), &json!({field: true})));
    assert_eq!(world.at("01:00:00").log(), "");
    let message = format!(
        "RunTemplate train: its spec has {field}, which a schedule can't give its Runs; leave it out."
    );
    assert_stalled(&world, "TemplateInvalid", &message);
}

/// Proves: P-template
#[test]
fn a_template_that_the_api_server_refuses_is_stalled_before_any_tick_and_resumes_when_mended() {
    let mut world = World::unseen("00:30:00", &json!({}));
    world.refusal = Some("activeDeadlineSeconds must be an integer");
    world.turns();
    let message =
        "The API server refuses the Run of this template: activeDeadlineSeconds must be an integer";
    assert_stalled(&world, "TemplateRefused", message);
    world.refusal = None;
    world.edit(&json!({"template": {"spec": {"workload": {"image": "i"}}}}));
    assert_eq!(world.ready(), ("True".to_owned(), "Scheduled".to_owned()));
    let told: Vec<_> = world.events.iter().map(|event| event.reason).collect();
    assert_eq!(told, [EventReason::Stalled, EventReason::Recovered]);
    assert_eq!(world.at("01:00:00").log(), "created 0100");
}

/// Its generation is the same, and nothing else of the first is in force.
/// Proves: P-template
#[test]
fn a_template_that_is_created_again_is_tried_anew() {
    let mut world = World::unseen("00:30:00", &using(&json!({"epochs": "10"})));
    let create = |world: &mut World, uid: &str| {
        let mut template = train(&epochs(), &json!({}));
        template.metadata.uid = Some(uid.to_owned());
        world.template = Some(template);
        world.turns();
    };
    create(&mut world, "first");
    assert_eq!(world.stalled(), None);
    world.template = None;
    world.refusal = Some("denied by a policy");
    world.turns();
    create(&mut world, "second");
    let message = "The API server refuses the Run of this template: denied by a policy";
    assert_stalled(&world, "TemplateRefused", message);
    world.refusal = None;
    create(&mut world, "third");
    assert_eq!(world.stalled(), None);
}

/// A policy of the cluster may have changed, which no object shows.
/// Proves: P-template
#[test]
fn a_refused_template_is_tried_again_after_a_minute() {
    let mut world = World::unseen("00:30:00", &json!({}));
    world.refusal = Some("denied by a policy");
    world.turns();
    world.refusal = None;
    world.at("00:30:59");
    assert!(world.stalled().is_some());
    world.at("00:31:00");
    assert_eq!(world.stalled(), None);
}

/// Until 01:02 or 01:10.
/// Proves: P-template, P-schedule-policy
#[rstest]
#[case::in_time("01:02:00", "created 0100")]
#[case::too_late("01:10:00", "missed 0100")]
fn a_creation_that_is_refused_is_tried_until_the_deadline(#[case] until: &str, #[case] log: &str) {
    let mut world = World::new(&json!({}));
    world.refusal = Some("quota exceeded");
    world.at("01:00:00");
    let message = "The API server refuses the Run of this template: quota exceeded";
    assert_stalled(&world, "TemplateRefused", message);
    assert_eq!(world.at("01:01:00").log(), "");
    world.refusal = None;
    assert_eq!(world.at(until).log(), log);
    assert_eq!(world.at("01:11:30").stalled(), None);
}

/// Proves: P-schedule
#[test]
fn a_name_that_is_taken_is_told_and_tried_again() {
    let mut world = World::new(&json!({}));
    world.takes_the_name("0100");
    world.at("01:00:00");
    let message = "The Run nightly-202611300100 exists and is not this schedule's, so that its tick has none. \
                   Delete that Run; this is tried again.";
    assert_stalled(&world, "NameTaken", message);
    assert!(world.status().pending_tick.is_some());
    world.runs.clear();
    assert_eq!(world.at("01:00:59").log(), "");
    assert_eq!(world.at("01:01:00").log(), "created 0100");
    assert_eq!(world.stalled(), None);
}

/// Until the clock has come within a day of it.
/// Proves: P-schedule-time
#[rstest]
fn a_time_that_a_clock_far_ahead_has_stored_is_told(#[values(true, false)] ticked: bool) {
    let mut world = World::new(&json!({}));
    let ahead = whole_seconds("2026-12-01T01:30:00Z".parse().unwrap());
    let status = world.schedule.status.as_mut().unwrap();
    if ticked {
        status.last_schedule_time = Some(ahead);
    } else {
        status.in_force.as_mut().unwrap().since = ahead;
    }
    assert_eq!(world.at("01:00:00").log(), "");
    let (what, remedy) = if ticked {
        ("The latest tick", "delete")
    } else {
        ("status.inForce.since", "suspend")
    };
    let message = format!("{what} is more than a day ahead of the operator's clock");
    assert_stalled(&world, "ClockSkew", &message);
    assert!(world.stalled().unwrap().1.contains(remedy));
    assert_eq!(world.due, Some(time("01:30:00")));
    world.at("01:30:00");
    assert_eq!(world.stalled(), None);
    assert_eq!(world.ready(), ("True".to_owned(), "Scheduled".to_owned()));
}

/// Proves: P-schedule-time
#[test]
fn a_schedule_that_counts_from_a_time_far_ahead_is_mended_by_a_suspension() {
    let mut world = World::new(&json!({}));
    let status = world.schedule.status.as_mut().unwrap();
    let ahead = whole_seconds("2026-12-02T00:00:00Z".parse().unwrap());
    status.in_force.as_mut().unwrap().since = ahead;
    assert_eq!(world.at("01:00:00").stalled().unwrap().0, "ClockSkew");
    world.edit(&json!({"suspend": true}));
    world.edit(&json!({"suspend": null}));
    assert_eq!(world.stalled(), None);
    assert_eq!(world.at("02:00:00").log(), "created 0200");
}
