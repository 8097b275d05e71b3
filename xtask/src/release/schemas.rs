//! JSON schemas of the resources, for what checks manifests without a cluster: kubeconform, editors. Without the rules in
//! CEL, which they can't hold.

use std::path::Path;

use run_operator::api::crd;
use serde_json::{Value, json};

use crate::common::{Outcome, write};

/// Writes `GROUP/KIND_VERSION.json` below the folder, the kind in lower case.
pub(super) fn run(output: &Path) -> Outcome<()> {
    for crd in crd::all() {
        let (group, names) = (crd.spec.group, crd.spec.names);
        for version in crd.spec.versions {
            let schema = version.schema.and_then(|schema| schema.open_api_v3_schema);
            let mut schema = json!(schema);
            let version = version.name;
            let fields = &mut schema["properties"];
            fields["apiVersion"] = json!({"enum": [format!("{group}/{version}")]});
            fields["kind"] = json!({"enum": [names.kind]});
            fields["metadata"] = json!({"type": "object"});
            close(&mut schema);
            let name = format!("{}_{version}.json", names.kind.to_lowercase());
            write(&output.join(&group).join(name), format!("{schema:#}\n"))?;
        }
    }
    Ok(())
}

/// Allows no fields but the known ones, as kubectl does, except where the API server keeps others: in `workload`.
fn close(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut() {
        let open = object.contains_key("x-kubernetes-preserve-unknown-fields");
        if object.contains_key("properties") && !open {
            object.insert("additionalProperties".to_owned(), false.into());
        }
        object.values_mut().for_each(close);
    }
}
