//! `files/unset.yaml`: what a value is when it is null. Helm removes such a value, and all that is below it, before a
//! template sees it.

use serde_json::{Value, json};

use super::keys::Key;
use crate::common::{Outcome, yaml};

const HEADER: &str = "# What a value is when it is null. Generated from values.yaml by `make generate`. Do not edit.\n";

/// The file as text.
pub(super) fn of(keys: &[Key]) -> Outcome<String> {
    let mut root = json!({});
    for key in keys {
        let Some((name, outer)) = key.path.split_last() else {
            continue;
        };
        let group = outer.iter().fold(&mut root, |at, name| &mut at[name]);
        group[name] = unset(key);
    }
    Ok(format!("{HEADER}{}", yaml(&root)?))
}

/// A list or a map is empty, unless it must not be: so the value of a user removes the default. Any other value has its
/// default.
fn unset(key: &Key) -> Value {
    let needed = key.rules.as_ref().and_then(|rules| rules.get("minItems"));
    match &key.default {
        Value::Object(_) => json!({}),
        Value::Array(_) if needed.is_none() => json!([]),
        default => default.clone(),
    }
}
