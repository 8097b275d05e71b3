//! `contract show`: what is in force, with the comments of the built-in file, and marks at what comes from a file.

use std::fmt::Write;

use serde_json::Value;

use run_operator::api::Contract;
use run_operator::api::contract::BUILTIN;
use run_operator::decide::truncate::escaped;

/// The built-in file, in which the values of a file replace the built-in ones. It is a contract file itself.
pub(super) fn in_force(contract: &Contract, file: &str) -> String {
    let mark = format!("# from {}", escaped(file, 256));
    let mut section = "";
    let mut text = String::new();
    for line in BUILTIN.lines() {
        let field = line.split_once(':').map(|(name, _)| name);
        let field = field.filter(|name| !name.trim_start().starts_with('#'));
        let given = match field.map(|name| (name, name.strip_prefix("  "))) {
            Some((_, Some(inner))) => &contract.given()[section][inner],
            Some((name, None)) => {
                section = name;
                let given = Some(&contract.given()[name]);
                given
                    .filter(|given| !given.is_object())
                    .unwrap_or(&Value::Null)
            }
            None => &Value::Null,
        };
        let _ = match (field, given) {
            (None | Some("apiVersion" | "kind"), _) | (_, Value::Null) => {
                writeln!(text, "{line}")
            }
            (Some(name), given) => writeln!(text, "{name}: {given}  {mark}"),
        };
    }
    text
}
