//! What a schedule's Runs are made from.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde_json::value::RawValue;

use crate::api::template::TemplateBody;
use crate::api::{Reason, RunSchedule, RunTemplate};
use crate::decide::conditions::Why;
use crate::decide::template::{TemplateError, expand};

/// Fields of a spec that are each Run's own: no Run is made with those of another, or of a template.
pub const EACH_RUNS_OWN: [&str; 3] = ["suspend", "cancel", "idempotencyKey"];

/// What Runs are made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    pub body: TemplateBody,
    /// The `RunTemplate`, if it is from one.
    pub template: Option<Origin>,
}

/// A version of a `RunTemplate`.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    pub name: String,
    pub generation: i64,
    /// One that is created again begins anew with its generations.
    pub uid: String,
}

impl Source {
    /// What Runs of a template with these values are made from.
    pub fn of(
        template: &RunTemplate,
        given: &BTreeMap<String, String>,
    ) -> Result<Self, TemplateError> {
        Ok(Self {
            body: expand(&template.spec, given)?,
            template: Some(Origin {
                name: template.name_any(),
                generation: template.metadata.generation.unwrap_or_default(),
                uid: template.uid().unwrap_or_default(),
            }),
        })
    }
}

/// What the schedule's Runs are made from now. `template`: the one that `templateRef` names, if it exists.
pub fn source(schedule: &RunSchedule, template: Option<&RunTemplate>) -> Result<Source, Why> {
    let spec = &schedule.spec;
    if let Some(body) = &spec.template {
        let body = body.clone();
        return Ok(Source {
            body,
            template: None,
        });
    }
    let name = spec
        .template_ref
        .as_ref()
        .map_or("", |template| &template.name);
    let Some(template) = template else {
        let message = format!(
            "spec.templateRef: there is no RunTemplate {name} in this namespace that can be read. Create it, or name another."
        );
        return Err(Why::new(Reason::TemplateNotFound, message));
    };
    let given = spec.parameters.clone().unwrap_or_default();
    let source = Source::of(template, &given).map_err(|error| {
        let message = format!("spec.parameters with RunTemplate {name}: {error}");
        Why::new(Reason::TemplateInvalid, message)
    })?;
    if let Some(field) = not_to_give(&source.body) {
        let message = format!(
            "RunTemplate {name}: its spec has {field}, which a schedule can't give its Runs; leave it out."
        );
        return Err(Why::new(Reason::TemplateInvalid, message));
    }
    Ok(source)
}

/// The field of a template's spec, if there is one, that no schedule's Run may have. Of what another controller runs the
/// end would not be known.
fn not_to_give(body: &TemplateBody) -> Option<&'static str> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(body.spec.as_str()).ok()?;
    let mut not_to_give = EACH_RUNS_OWN.into_iter().chain(["managedBy"]);
    not_to_give.find(|name| fields.contains_key(*name))
}
