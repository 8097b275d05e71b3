//! The API server: it answers, is new enough, and has the CRDs of this version.

use std::fmt;

use k8s_openapi::apimachinery::pkg::version::Info;
use kube::Client;
use serde_json::{Value, json};

use crate::api::{crd, names};

use super::{CHECK_ACCESS, Check, Finding, NAMED, NO_ANSWER, bounded, first};

const REACHED: Check = Check::new("cluster.reached", "the API server answers");
const VERSION: Check = Check::new("cluster.version", "Kubernetes is new enough");
const CRDS: Check = Check::new("cluster.crds", "the CRDs are of this version");
const APPLY: &str = "Apply them: `kubectl apply --server-side -f crds/` in a checkout of this version, or `helm upgrade` with crds.enabled.";

/// If the first finding is not ok the API server doesn't answer, and if the last one isn't it may not know Runs.
pub async fn api_server(client: &Client) -> [Finding; 3] {
    let version = match bounded(client.apiserver_version()).await {
        Ok(version) => version,
        Err(refused) => {
            let todo = match refused.code() {
                Some(_) => "Check the credentials of the kubeconfig or the service account.",
                None => CHECK_ACCESS,
            };
            let reached = REACHED.fail(format!("{}.", refused.why()), todo);
            let [version, crds] = [VERSION, CRDS].map(|check| check.not_tried(NO_ANSWER));
            return [reached, version, crds];
        }
    };
    let reached = REACHED.ok(format!("It is Kubernetes {}.", version.git_version));
    let new_enough = match KubernetesVersion::served(&version) {
        Some(found) if found < MINIMUM => VERSION.fail(
            format!("The API server serves {found}, and the operator needs {MINIMUM} or newer."),
            "Upgrade the cluster, or install a version of run-operator that supports it.",
        ),
        Some(found) => VERSION.ok(format!("{found}; the operator needs {MINIMUM} or newer.")),
        None => VERSION.not_tried("the API server reports no version number"),
    };
    [reached, new_enough, crds(client).await]
}

/// Uses the document that every authenticated user may read: reading the CRDs needs a permission of its own.
async fn crds(client: &Client) -> Finding {
    let (group, version) = (names::GROUP, names::VERSION);
    let request = http::Request::get(format!("/openapi/v3/apis/{group}/{version}"));
    let document = bounded(async {
        let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
        client.request::<Value>(request).await
    });
    let missing = match document.await {
        Ok(document) => missing(&document),
        Err(refused) if refused.code() == Some(404) => {
            let why = "The cluster doesn't serve";
            return CRDS.fail(
                format!("{why} {group}/{version}: it has none of the CRDs."),
                APPLY,
            );
        }
        Err(refused) => return CRDS.fail(format!("{}.", refused.why()), APPLY),
    };
    match missing.as_slice() {
        [] => CRDS.ok("The cluster has every field of this version."),
        missing => {
            let missing = first(NAMED, missing);
            CRDS.fail(format!("The cluster lacks {missing}."), APPLY)
        }
    }
}

/// Fields, such as `Run.spec.readyWhen`, that the API server's `OpenAPI` document lacks: it would drop or refuse them.
fn missing(document: &Value) -> Vec<String> {
    let mut missing = Vec::new();
    let schemas = document["components"]["schemas"].as_object();
    for crd in crd::all() {
        let kind = &crd.spec.names.kind;
        // By the kind that a schema declares, and not by its key.
        let served = schemas.into_iter().flatten().find(|(_, schema)| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            let mut kinds = kinds.into_iter().flatten();
            kinds.any(|known| known["kind"] == **kind)
        });
        let ours = &json!(crd.spec.versions)[0]["schema"]["openAPIV3Schema"];
        compare(kind, ours, served.map(|(_, schema)| schema), &mut missing);
    }
    missing
}

fn compare(path: &str, ours: &Value, served: Option<&Value>, missing: &mut Vec<String>) {
    let Some(served) = served else {
        missing.push(path.to_owned());
        return;
    };
    for (name, field) in ours["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        compare(&path, field, served["properties"].get(name), missing);
    }
    if let Some(items) = ours.get("items") {
        compare(&format!("{path}[]"), items, Some(&served["items"]), missing);
    }
}

/// The oldest Kubernetes that the operator is tested on, and starts on.
pub const MINIMUM: KubernetesVersion = KubernetesVersion(1, 35);

/// A minor version, such as 1.35. Its order is that of the releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KubernetesVersion(u32, u32);

impl KubernetesVersion {
    /// The version that an API server emulates (`--emulated-version`), else its own. None if it reports no numbers.
    pub fn served(info: &Info) -> Option<Self> {
        let emulated = info
            .emulation_major
            .as_deref()
            .zip(info.emulation_minor.as_deref())
            .and_then(|(major, minor)| Self::parse(major, minor));
        emulated.or_else(|| Self::parse(&info.major, &info.minor))
    }

    /// Some distributions write `35+`.
    fn parse(major: &str, minor: &str) -> Option<Self> {
        let digits = |text: &str| {
            text.split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse()
                .ok()
        };
        Some(Self(digits(major)?, digits(minor)?))
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn info(own: [&str; 2], emulated: Option<[&str; 2]>) -> Info {
        Info {
            major: own[0].to_owned(),
            minor: own[1].to_owned(),
            emulation_major: emulated.map(|version| version[0].to_owned()),
            emulation_minor: emulated.map(|version| version[1].to_owned()),
            ..Info::default()
        }
    }

    /// Proves: I-minimum-kubernetes
    #[rstest]
    #[case::the_minimum(["1", "35"], None, Some(("1.35", true)))]
    #[case::one_below(["1", "34"], None, Some(("1.34", false)))]
    #[case::by_number_and_not_by_text(["1", "9"], None, Some(("1.9", false)))]
    #[case::another_major(["2", "0"], None, Some(("2.0", true)))]
    #[case::of_a_distribution(["1", "36+"], None, Some(("1.36", true)))]
    #[case::emulated(["1", "37"], Some(["1", "34"]), Some(("1.34", false)))]
    #[case::emulated_and_empty(["1", "37"], Some(["", ""]), Some(("1.37", true)))]
    #[case::no_number(["v1", "x"], None, None)]
    fn the_version_is_compared_by_numbers(
        #[case] own: [&str; 2],
        #[case] emulated: Option<[&str; 2]>,
        #[case] expected: Option<(&str, bool)>,
    ) {
        let version = KubernetesVersion::served(&info(own, emulated));
        let found = version.map(|version| (version.to_string(), version >= MINIMUM));
        assert_eq!(
            found,
            expected.map(|(text, taken)| (text.to_owned(), taken))
        );
    }
}
