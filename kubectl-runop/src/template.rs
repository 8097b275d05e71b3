//! What `--template` and `--set` yield: the RunTemplate that was read, with the values of its parameters.

use std::collections::BTreeMap;

use run_operator::decide::schedule::Source;

use crate::cluster::{self, Cluster};
use crate::error::ToolError;

/// What a Run of the template is made from, with these parameters, each `name=value`.
pub(crate) async fn source(
    cluster: &Cluster,
    name: &str,
    set: &[String],
) -> Result<Source, ToolError> {
    let given = values(set)?;
    let template = cluster::read(&cluster.templates(), name).await?;
    Source::of(&template, &given)
        .map_err(|error| ToolError::usage(format!("RunTemplate {name}: {error}")))
}

fn values(set: &[String]) -> Result<BTreeMap<String, String>, ToolError> {
    let mut values = BTreeMap::new();
    for assignment in set {
        let wrong = |why: &str| ToolError::usage(format!("--set {assignment}: {why}"));
        let (name, value) = assignment
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| wrong("it needs the name of a parameter, = and a value"))?;
        if values.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(wrong(&format!("the parameter {name} is set already")));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn of(set: &[&str]) -> Result<BTreeMap<String, String>, String> {
        let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
        values(&set).map_err(|error| error.to_string())
    }

    /// Proves: K-submit
    #[test]
    fn a_parameters_value_is_what_follows_the_first_equals_sign() {
        let values = of(&["lr=1e-3", "args=--a=b", "note="]).unwrap();
        let values: Vec<(&str, &str)> = values.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(values, [("args", "--a=b"), ("lr", "1e-3"), ("note", "")]);
    }

    /// Proves: K-submit
    #[rstest]
    #[case(&["lr"], "error: --set lr: it needs the name of a parameter, = and a value")]
    #[case(&["=1"], "error: --set =1: it needs the name of a parameter, = and a value")]
    #[case(&["lr=1", "lr=1"], "error: --set lr=1: the parameter lr is set already")]
    fn a_value_without_a_name_or_for_the_second_time_is_refused(
        #[case] set: &[&str],
        #[case] message: &str,
    ) {
        assert_eq!(of(set).unwrap_err(), message);
    }
}
