//! The `Run` resource: one run, as requested by a user.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{
    WorkspaceRef,
    intent::IntentRecord,
    limits, names, schema,
    status::{Phase, RunStatus},
};

/// The workload, the Workspace, and the handling of the end and of a deletion.
// The methods below return what is in force, also for an object without the schema's defaults.
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "run-operator.dev",
    version = "v1alpha1",
    kind = "Run",
    plural = "runs",
    namespaced,
    status = "RunStatus",
    derive = "PartialEq",
    shortname = "rn",
    category = "run-operator",
    doc = "A run at the Run Orchestration Service. One Run object is one run: it is submitted once, \
           followed until it ends, and cancelled when the object is deleted.",
    validation = schema::suspend_before_submission(),
    validation = schema::priority_before_submission(),
    selectable = ".status.phase",
    selectable = ".status.runID",
    selectable = ".status.workspace.name",
    selectable = ".spec.provider",
    selectable = ".spec.region",
    printcolumn = r#"{"name": "Phase", "type": "string",
        "jsonPath": ".status.phase",
        "description": "The operator's summary of the run."}"#,
    printcolumn = r#"{"name": "State", "type": "string",
        "jsonPath": ".status.state",
        "description": "The state as the service names it."}"#,
    printcolumn = r#"{"name": "Ready", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status",
        "description": "Whether the run has reached the point that spec.readyWhen names."}"#,
    printcolumn = r#"{"name": "Reason", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Ready\")].reason",
        "description": "Reason of the Ready condition."}"#,
    printcolumn = r#"{"name": "Synced", "type": "string",
        "jsonPath": ".status.conditions[?(@.type==\"Synced\")].status",
        "description": "Whether State is up to date. False: it is older; the Synced condition has the reason."}"#,
    printcolumn = r#"{"name": "Run ID", "type": "string", "priority": 1,
        "jsonPath": ".status.runID",
        "description": "The service's identifier of the run."}"#,
    printcolumn = r#"{"name": "Progress", "type": "integer", "priority": 1,
        "jsonPath": ".status.progress.percent",
        "description": "Per cent of the work that is done, if the service says it."}"#,
    printcolumn = r#"{"name": "Age", "type": "date",
        "jsonPath": ".metadata.creationTimestamp",
        "description": "Time since the object was created."}"#
)]
#[schemars(extend("x-kubernetes-validations" = [
    schema::immutable_workload(),
    schema::immutable("provider", "create a new Run for another provider"),
    schema::immutable("region", "create a new Run for another region"),
    schema::immutable("workspaceRef", "create a new Run for another Workspace"),
    schema::immutable("idempotencyKey", "create a new Run for another key"),
    schema::immutable("managedBy", "create a new Run for another controller"),
    schema::one_way_cancel()
]))]
#[serde(rename_all = "camelCase")]
pub struct RunSpec {
    /// The Workspace whose token and base URL this Run uses. Unset: the Workspace `default` of the same
    /// namespace or, if there is none, the ClusterWorkspace with the annotation
    /// `run-operator.dev/is-default: "true"` that allows the namespace; decided when the Run is submitted.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_ref: Option<WorkspaceRef>,
    /// The workload, sent to the service unchanged. `image` is required; other fields are defined by the
    /// service. The whole object may have 1,472 KiB, else the Run fails as `RunTooLarge`; the
    /// service's own limit may be lower. The API server rounds whole numbers beyond 64 bits and makes 1.0 a 1: write such
    /// values as strings. Immutable.
    #[schemars(schema_with = "schema::workload")]
    pub workload: Workload,
    /// The provider to run on, at most 128 characters. Default: `auto`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = limits::MAX_PLACE),
        regex(pattern = schema::NO_CONTROL),
        extend("default" = names::AUTO)
    )]
    pub provider: Option<String>,
    /// The region to run in, at most 128 characters. Default: `auto`. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = limits::MAX_PLACE),
        regex(pattern = schema::NO_CONTROL),
        extend("default" = names::AUTO)
    )]
    pub region: Option<String>,
    /// Delays the submission while it is true. Once the Run is submitted it can't be set to true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Order of the Runs that wait for a slot of their Workspace (`maxActiveRuns`): the highest is submitted
    /// first, -1000 to 1000. Default: 0. Can't be changed once the Run is submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -limits::MAX_PRIORITY, max = limits::MAX_PRIORITY), extend("default" = 0))]
    pub priority: Option<i32>,
    /// The controller that runs this Run: a name such as `example.com/queue`. Unset, or
    /// `run-operator.dev/run-operator`: this operator, which does nothing with a Run of another one.
    /// Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 3, max = limits::MAX_MANAGER),
        regex(pattern = schema::DOMAIN_PREFIXED)
    )]
    pub managed_by: Option<String>,
    /// Cancels the run and keeps the object. Can't be changed once it is true; otherwise leave it unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
    /// Seconds after the submission at which the run is cancelled and the Run fails with
    /// `DeadlineExceeded`. At least 1. Unset: that of the Workspace's `runDefaults`, else none. Once the
    /// status shows that it has passed, a change has no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = limits::MAX_SECONDS))]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after its end at which the object is deleted; 0 is at once. Unset: those of the Workspace's
    /// `runDefaults`, else never. An object that Argo CD, Flux or Helm would re-create, and so run again,
    /// is not deleted; its Finished condition shows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    // Kubernetes before 1.36 doesn't check `format: int32`.
    #[schemars(range(min = 0, max = i32::MAX))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Effect of the object's deletion on its run. `Cancel`, the default: the run is cancelled, and the
    /// object stays until the run is seen to have ended. `Orphan`: the object is deleted at once and the
    /// run continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DeletionPolicy", extend("default" = DeletionPolicy::default()))]
    pub deletion_policy: Option<DeletionPolicy>,
    /// Requirement of the Ready condition, and so of GitOps health. `Succeeded`, the default: the run has
    /// succeeded. `Accepted`: the service has accepted the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ReadyWhen", extend("default" = ReadyWhen::default()))]
    pub ready_when: Option<ReadyWhen>,
    /// The idempotency key, scoped by namespace: visible ASCII, at most 255 characters. Unset: the
    /// object's uid. If set, an object that is created again gets its earlier run, in whatever state,
    /// for as long as the service remembers the key. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = limits::MAX_KEY), regex(pattern = schema::VISIBLE_ASCII))]
    pub idempotency_key: Option<String>,
    /// No field: bytes of the whole object as the API server sent it; 0 if it didn't.
    #[serde(skip)]
    pub object_bytes: usize,
}

/// Effect of an object's deletion on its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum DeletionPolicy {
    /// The run is cancelled, and the object stays until it is seen to have ended.
    #[default]
    Cancel,
    /// The object is deleted at once and the run continues.
    Orphan,
}

/// Requirement of the Ready condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ReadyWhen {
    /// Ready when the run has succeeded.
    #[default]
    Succeeded,
    /// Ready when the service has accepted the run.
    Accepted,
}

impl RunSpec {
    pub fn provider(&self) -> &str {
        self.provider.as_deref().unwrap_or(names::AUTO)
    }

    pub fn region(&self) -> &str {
        self.region.as_deref().unwrap_or(names::AUTO)
    }

    pub fn suspended(&self) -> bool {
        self.suspend.unwrap_or_default()
    }

    pub fn priority(&self) -> i32 {
        self.priority.unwrap_or_default()
    }

    /// Whether another controller runs it: this one must not touch it.
    pub fn managed_elsewhere(&self) -> bool {
        let manager = self.managed_by.as_deref();
        manager.is_some_and(|manager| manager != names::MANAGED_BY)
    }

    pub fn cancelled(&self) -> bool {
        self.cancel.unwrap_or_default()
    }

    pub fn deletion_policy(&self) -> DeletionPolicy {
        self.deletion_policy.unwrap_or_default()
    }

    pub fn ready_when(&self) -> ReadyWhen {
        self.ready_when.unwrap_or_default()
    }
}

impl Run {
    pub fn ended(&self) -> bool {
        let phase = self.status.as_ref().and_then(|status| status.phase);
        phase.is_some_and(Phase::terminal)
    }

    pub fn intent_record(&self) -> IntentRecord {
        IntentRecord::of(&self.metadata)
    }
}

/// `spec.workload` as received from the API server: a JSON object, as text. Clones share it.
///
/// A workload may be nested as deeply as the API server accepts, and contain a million small values. As a tree it would
/// cost a hundred times its text, and a parser that bounds the depth would refuse it; nothing here needs more than the
/// text.
#[derive(Clone, PartialEq, Eq)]
pub struct Workload(Arc<str>);

impl Workload {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its `image`, without decoding the rest; `None` if it can't be read, which the schema rules out.
    pub fn image(&self) -> Option<Cow<'_, str>> {
        #[derive(Deserialize)]
        struct Image<'a> {
            #[serde(borrow)]
            image: Cow<'a, str>,
        }
        let read = serde_json::from_str::<Image<'_>>(&self.0);
        read.ok().map(|read| read.image)
    }

    /// Uses the text of `other` if both are equal, so that many versions of one object store it once.
    pub fn share(&mut self, other: &Self) {
        if self == other {
            self.0 = Arc::clone(&other.0);
        }
    }
}

impl From<Map<String, Value>> for Workload {
    fn from(fields: Map<String, Value>) -> Self {
        Self(Value::Object(fields).to_string().into())
    }
}

/// Accepts a JSON object of any depth, without decoding it.
impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get().starts_with('{') {
            Ok(Self(raw.get().into()))
        } else {
            Err(D::Error::custom("workload is no object"))
        }
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Shows only its size: the content is the user's.
impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workload({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Proves: F-heavy
    #[test]
    fn a_workload_of_any_depth_is_kept_and_given_back_as_it_is() {
        let deep = format!(
            r#"{{"image":"i","a":{}{}}}"#,
            "[".repeat(9000),
            "]".repeat(9000)
        );
        let workload: Workload = serde_json::from_str(&deep).unwrap();
        assert_eq!(workload.as_str(), deep);
        assert_eq!(serde_json::to_string(&workload).unwrap(), deep);
    }

    #[test]
    fn the_image_is_read_beside_fields_of_any_depth() {
        let deep = format!(
            r#"{{"a":{}{},"image":"ghcr.io\/acme","z":{{"image":1}}}}"#,
            "[".repeat(9000),
            "]".repeat(9000)
        );
        let image = |text: &str| {
            let workload: Workload = serde_json::from_str(text).unwrap();
            workload.image().map(Cow::into_owned)
        };
        assert_eq!(image(&deep).as_deref(), Some("ghcr.io/acme"));
        assert_eq!(image(r#"{"image":1}"#), None);
        assert_eq!(image("{}"), None);
    }

    #[test]
    fn what_is_no_object_is_no_workload() {
        for text in ["[]", "null", "1", r#""a""#] {
            assert!(serde_json::from_str::<Workload>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn versions_of_an_object_share_an_unchanged_workload_text() {
        let of = |text: &str| serde_json::from_str::<Workload>(text).unwrap();
        let (first, other) = (of(r#"{"image":"a"}"#), of(r#"{"image":"b"}"#));
        let mut next = of(r#"{"image":"a"}"#);
        next.share(&first);
        assert!(Arc::ptr_eq(&next.0, &first.0));
        next.share(&other);
        assert!(Arc::ptr_eq(&next.0, &first.0));
        assert_eq!(serde_json::to_value(&next).unwrap(), json!({"image": "a"}));
    }
}
