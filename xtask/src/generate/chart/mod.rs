//! The generated parts of the chart: its CRDs, the schema and the tables of its values, and the manifests
//! that are rendered from it.

mod keys;
mod manifests;
mod readme;
mod schema;

use std::path::Path;

use test_support::root;

use crate::common::{Outcome, read, write};
use crate::generate::Generated;

pub(crate) use manifests::{helm, install, manifests};

const CHART: &str = "charts/run-operator";
const SCHEMA: &str = "values.schema.json";
const README: &str = "README.md";
/// The file of the admission policy, which has a switch of its own.
const POLICY: &str = "policy.yaml";

/// The metadata that a CRD needs as part of a release.
const METADATA: &str = r#"  labels:
    {{- include "run-operator.labels" . | nindent 4 }}
  {{- if .Values.crds.keep }}
  annotations:
    helm.sh/resource-policy: keep
  {{- end }}
"#;

/// The CRDs and the admission policy as templates: so that `helm upgrade` upgrades them.
pub(crate) fn templates() -> Outcome<Vec<Generated>> {
    let directory = Path::new(CHART).join("templates/crds");
    let files = run_operator::api::crd::files()?.into_iter();
    let files = files.map(|(name, text)| {
        let text = template(name, &text);
        (directory.join(name), text)
    });
    Ok(files.collect())
}

fn template(name: &str, text: &str) -> String {
    let switch = match name {
        POLICY => r#"eq (include "run-operator.workloadPolicy" .) "true""#,
        _ => ".Values.crds.enabled",
    };
    let mut template = format!("{{{{- if {switch} }}}}\n");
    let mut in_metadata = false;
    for line in text.lines() {
        // Descriptions and rules are text, whatever they look like.
        template.push_str(&line.replace("{{", "{{ \"{{\" }}"));
        template.push('\n');
        if in_metadata && line.starts_with("  name: ") {
            template.push_str(METADATA);
        }
        in_metadata = line == "metadata:";
    }
    template + "{{- end }}\n"
}

/// `values.schema.json`, and the tables in the chart's README, from `values.yaml`.
pub(crate) fn values() -> Outcome<Vec<Generated>> {
    let chart = Path::new(CHART);
    let [schema, readme] = values_of(&root().join(chart))?;
    Ok(vec![
        (chart.join(SCHEMA), schema),
        (chart.join(README), readme),
    ])
}

/// Writes the same two into another copy of the chart.
pub(crate) fn write_values(chart: &Path) -> Outcome<()> {
    let [schema, readme] = values_of(chart)?;
    write(&chart.join(SCHEMA), schema)?;
    write(&chart.join(README), readme)
}

/// Schema and README of the chart in a folder.
fn values_of(chart: &Path) -> Outcome<[String; 2]> {
    let keys = keys::of(&read(&chart.join("values.yaml"))?)?;
    let text = read(&chart.join(README))?;
    Ok([schema::of(&keys)?, readme::with_tables(&text, &keys)?])
}
