//! Every rule of `docs/service.md` and every promise of `docs/design.md` has a test that proves it, or a reason
//! for having none. `docs/conformance.md` is written from the same: `make generate`.

use std::collections::BTreeSet;

use crate::files;
use test_support::source::{proofs, statements};

#[test]
fn statements_marks_and_tests_belong_together() {
    if let Err(problems) = proofs::all() {
        panic!("{} problems:\n{problems}", problems.lines().count());
    }
}

/// The rules that the code's comments speak of by number.
#[test]
fn the_service_s_rules_endpoints_and_resources_are_all_there() {
    let (statements, _) = statements::all();
    let service = statements
        .iter()
        .filter(|s| s.document == "docs/service.md");
    let defined: BTreeSet<&str> = service.map(|s| s.id.as_str()).collect();
    let rules = (1..=13).map(|n| format!("R{n}")).chain(["R10a".to_owned()]);
    let operations = [
        "getVersion",
        "getCurrentWorkspace",
        "createRun",
        "getRun",
        "streamRunEvents",
        "cancelRun",
    ];
    let resources = ["S-run", "S-workspace", "S-problem", "S-paths"];
    let wanted = rules
        .chain(operations.iter().map(|o| format!("E-{o}")))
        .chain(resources.iter().map(|&s| s.to_owned()));
    let missing: Vec<String> = wanted.filter(|id| !defined.contains(id.as_str())).collect();
    assert!(
        missing.is_empty(),
        "docs/service.md doesn't define {missing:?}"
    );
    let contract = files::text("contract/openapi.yaml");
    for operation in operations {
        assert!(
            contract.contains(&format!("operationId: {operation}\n")),
            "{operation}"
        );
    }
}
