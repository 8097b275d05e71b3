//! The generated parts of the chart: its CRDs, the schema and the tables of its values, and the manifests
//! that are rendered from it.

mod keys;
mod manifests;
mod readme;
mod schema;
mod unset;

use std::path::Path;

use test_support::root;

use crate::common::{Outcome, read};
use crate::generate::Generated;

pub(crate) use manifests::{helm, install, manifests};

const CHART: &str = "charts/run-operator";
/// The file of the admission policy, which has a switch of its own.
const POLICY: &str = "policy.yaml";

/// The first line of every template.
const VALUES: &str = "{{- include \"run-operator.values\" . }}\n";

/// The metadata that a CRD needs as part of a release.
const METADATA: &str = r#"  {{- $kept := ternary (dict "helm.sh/resource-policy" "keep") dict .Values.crds.keep }}
  {{- include "run-operator.metadata" (list . dict $kept) | nindent 2 }}
"#;

/// The CRDs and the admission policy as templates: so that `helm upgrade` upgrades them.
pub(crate) fn templates() -> Outcome<Vec<Generated>> {
    let directory = Path::new(CHART).join("templates/crds");
    let files = run_operator::api::crd::files()?.into_iter();
    let files = files.map(|(name, text)| {
        let text = template(&name, &text);
        (directory.join(name), text)
    });
    Ok(files.collect())
}

fn template(name: &str, text: &str) -> String {
    let switch = match name {
        POLICY => r#"eq (include "run-operator.workloadPolicy" .) "true""#,
        _ => ".Values.crds.enabled",
    };
    let mut template = format!("{VALUES}{{{{- if {switch} }}}}\n");
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

/// The files of our chart that state its values.
pub(crate) fn values() -> Outcome<Vec<Generated>> {
    let files = values_of(&root().join(CHART))?.into_iter();
    let files = files.map(|(name, text)| (Path::new(CHART).join(name), text));
    Ok(files.collect())
}

/// `values.schema.json`, what null means, and the README with its tables, from `values.yaml` of the chart in a folder.
pub(crate) fn values_of(chart: &Path) -> Outcome<[(&'static str, String); 3]> {
    let keys = keys::of(&read(&chart.join("values.yaml"))?)?;
    let readme = readme::with_tables(&read(&chart.join("README.md"))?, &keys)?;
    Ok([
        ("values.schema.json", schema::of(&keys)?),
        ("files/unset.yaml", unset::of(&keys)?),
        ("README.md", readme),
    ])
}
