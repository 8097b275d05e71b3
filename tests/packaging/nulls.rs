//! Each key of `values.yaml` set to null, as one is whose entries are all commented out.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::helm::{self, ci, container, objects, the};
use test_cluster::Scratch;

/// The path of each key, of groups and values alike.
fn keys(values: &Value, above: &[String], found: &mut Vec<Vec<String>>) {
    for (name, below) in values.as_object().into_iter().flatten() {
        let path = [above, std::slice::from_ref(name)].concat();
        keys(below, &path, found);
        found.push(path);
    }
}

/// What Helm says against null at a key beside the full values: nothing, or a sentence with the key's name.
fn complaint(scratch: &Scratch, path: &[String]) -> Option<String> {
    let null = path
        .iter()
        .rfold(Value::Null, |below, name| json!({name: below}));
    let file = scratch.path().join(path.join("-").replace('/', "-"));
    std::fs::write(&file, null.to_string()).unwrap();
    let args = ["-f", &ci("full"), "-f", &file.display().to_string()];
    let output = helm::template(&helm::chart(), "run-operator", "run-operator", &args);
    let told = String::from_utf8(output.stderr).unwrap();
    let by_a_sentence = told.contains("execution error at") && told.contains(&path.join("."));
    (!output.status.success() && !by_a_sentence).then(|| format!("{}: {told}", path.join(".")))
}

/// Proves: I-values
#[test]
fn null_at_any_key_is_rendered_or_refused_by_the_key_s_name() {
    let text = std::fs::read_to_string(helm::chart().join("values.yaml")).unwrap();
    let mut paths = Vec::new();
    keys(&serde_saphyr::from_str(&text).unwrap(), &[], &mut paths);
    assert!(paths.len() > 150, "{}", paths.len());
    let scratch = Scratch::new("nulls").unwrap();
    let next = AtomicUsize::new(0);
    let work = || {
        let turns = std::iter::from_fn(|| paths.get(next.fetch_add(1, Ordering::Relaxed)));
        turns.filter_map(|path| complaint(&scratch, path)).collect()
    };
    let complaints: Vec<String> = std::thread::scope(|scope| {
        let workers = [(); 4].map(|()| scope.spawn(work));
        let told = workers.map(|worker| -> Vec<String> { worker.join().unwrap() });
        told.concat()
    });
    assert_eq!(complaints, [""; 0]);
}

/// Proves: I-values
#[test]
fn null_is_the_default_or_an_empty_list_or_map() {
    let nulls = json!({
        "crds": null, "replicas": null, "metrics": {"service": {"port": null}}, "podLabels": null,
        "nodeSelector": null, "tokenSecretNames": null, "networkPolicy": {"egress": {"dnsPorts": null}},
    });
    let scratch = Scratch::new("nulls").unwrap();
    let file = scratch.path().join("values.json");
    std::fs::write(&file, nulls.to_string()).unwrap();
    let network = r#"networkPolicy={"enabled":true,"egress":{"apiServerTo":[{"podSelector":{}}],"serviceTo":[{"podSelector":{}}]}}"#;
    let args = ["-f", &file.display().to_string(), "--set-json", network];
    let rendered = objects(&args);
    assert_eq!(
        helm::of_kind(&rendered, "CustomResourceDefinition").len(),
        5
    );
    assert_eq!(the(&rendered, "Deployment")["spec"]["replicas"], 1);
    assert_eq!(the(&rendered, "Service")["spec"]["ports"][0]["port"], 8080);
    assert_eq!(container(&rendered)["ports"][0]["containerPort"], 8080);
    assert_eq!(helm::pod(&rendered)["spec"].get("nodeSelector"), None);
    let dns = &the(&rendered, "NetworkPolicy")["spec"]["egress"][0]["ports"];
    assert_eq!(dns[0]["port"], 53, "without ports it would be every port");
    let roles = json!(helm::of_kind(&rendered, "ClusterRole")).to_string();
    assert!(!roles.contains("secrets"), "{roles}");
}
