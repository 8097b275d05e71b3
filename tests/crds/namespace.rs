//! A namespace for one test, and requests to it exactly as they are on the wire.

use std::time::{Duration, Instant};

use http::Method;
use kube::Client;
use kube::core::Status;
use kube::core::response::StatusCause;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use run_operator::api::crd;

use test_cluster::ControlPlane;

const MERGE_PATCH: &str = "application/merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
/// A policy counts from when the API server's own watch has seen it: a second or two as a rule.
const IN_FORCE_TIMEOUT: Duration = Duration::from_mins(2);

/// An answer of the API server.
pub(crate) type Answer = Result<Value, Box<Status>>;

/// A namespace on a control plane that has the CRDs and the policy.
pub(crate) struct Space<'a> {
    pub(crate) control_plane: &'a ControlPlane,
    namespace: String,
    client: Client,
}

impl Space<'static> {
    /// A new namespace on the shared control plane.
    pub(crate) async fn new() -> Self {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let control_plane = ControlPlane::shared().await;
        let yaml = crd::yaml().unwrap();
        let install = async || drop(control_plane.apply_yaml(&yaml).await.unwrap());
        INSTALLED.get_or_init(install).await;
        Self::on(control_plane).await
    }

    /// A new namespace where the policy is known to be in force.
    pub(crate) async fn with_policy() -> Self {
        let space = Self::new().await;
        let workload = json!({"workload": {"image": "x", "a": 1}});
        space.created("Run", "probe", workload).await;
        let swapped = json!({"spec": {"workload": {"a": null, "b": 1}}});
        let dry = format!("{}?dryRun=All", space.path("Run", "probe"));
        let deadline = Instant::now() + IN_FORCE_TIMEOUT;
        while space.merge(&dry, &swapped).await.is_ok() {
            let in_time = Instant::now() < deadline;
            assert!(in_time, "the admission policy is not in force");
        }
        space
    }
}

impl<'a> Space<'a> {
    /// A new namespace on any control plane that has the CRDs.
    pub(crate) async fn on(control_plane: &'a ControlPlane) -> Self {
        let client = control_plane.client().await.unwrap();
        let namespace = format!("crds-{}", uuid::Uuid::new_v4());
        let space = Self {
            control_plane,
            namespace,
            client,
        };
        let body = json!({"metadata": {"name": space.namespace}}).to_string();
        let path = "/api/v1/namespaces";
        space.send(Method::POST, path, "", &body).await.unwrap();
        space
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Creates an object with this spec.
    pub(crate) async fn create(&self, kind: &str, name: &str, spec: Value) -> Answer {
        let object = self.object(kind, name, &spec);
        self.create_text(kind, &object.to_string()).await
    }

    /// Creates a Run with a workload and nothing else.
    pub(crate) async fn create_run(&self, name: &str) {
        let spec = json!({"workload": {"image": "x"}});
        self.created("Run", name, spec).await;
    }

    /// An object with this spec, which is taken.
    pub(crate) async fn created(&self, kind: &str, name: &str, spec: Value) -> Value {
        self.create(kind, name, spec).await.unwrap()
    }

    /// The object with this spec in place of its own, which is taken.
    pub(crate) async fn replaced(&self, kind: &str, name: &str, spec: Value) -> Value {
        self.replace(kind, name, spec).await.unwrap()
    }

    /// The object with this patch of its status, which is taken.
    pub(crate) async fn with_status(&self, kind: &str, name: &str, status: Value) -> Value {
        self.patch_status(kind, name, status).await.unwrap()
    }

    /// Creates an object as kubectl does: an unknown field is an error.
    pub(crate) async fn create_strictly(&self, kind: &str, name: &str, spec: Value) -> Answer {
        let path = format!("{}?fieldValidation=Strict", self.path(kind, ""));
        let body = self.object(kind, name, &spec).to_string();
        self.send(Method::POST, &path, "", &body).await
    }

    /// Creates an object from JSON as written: numbers arrive as they are.
    pub(crate) async fn create_text(&self, kind: &str, text: &str) -> Answer {
        let path = self.path(kind, "");
        self.send(Method::POST, &path, "", text).await
    }

    pub(crate) async fn get(&self, kind: &str, name: &str) -> Value {
        let path = self.path(kind, name);
        self.send(Method::GET, &path, "", "").await.unwrap()
    }

    /// Replaces the spec by this one: what is not in it is unset.
    pub(crate) async fn replace(&self, kind: &str, name: &str, spec: Value) -> Answer {
        let mut now = self.get(kind, name).await;
        now["spec"] = spec;
        let path = self.path(kind, name);
        self.send(Method::PUT, &path, "", &now.to_string()).await
    }

    /// Patches the object by a merge patch: null unsets.
    pub(crate) async fn patch(&self, kind: &str, name: &str, patch: &Value) -> Answer {
        self.merge(&self.path(kind, name), patch).await
    }

    async fn merge(&self, path: &str, changes: &Value) -> Answer {
        let body = changes.to_string();
        self.send(Method::PATCH, path, MERGE_PATCH, &body).await
    }

    /// Patches the status subresource by a merge patch: null unsets.
    pub(crate) async fn patch_status(&self, kind: &str, name: &str, status: Value) -> Answer {
        let path = format!("{}/status", self.path(kind, name));
        self.merge(&path, &json!({"status": status})).await
    }

    /// Replaces the status subresource, or with `None` takes it away.
    pub(crate) async fn replace_status(
        &self,
        kind: &str,
        name: &str,
        status: Option<Value>,
    ) -> Answer {
        let mut now = self.get(kind, name).await;
        let fields = now.as_object_mut().unwrap();
        match status {
            Some(status) => fields.insert("status".to_owned(), status),
            None => fields.remove("status"),
        };
        let path = format!("{}/status", self.path(kind, name));
        self.send(Method::PUT, &path, "", &now.to_string()).await
    }

    /// Server-side apply by one and the same manager, as GitOps tools do.
    pub(crate) async fn apply(&self, kind: &str, name: &str, spec: Value) -> Answer {
        let path = format!("{}?fieldManager=gitops", self.path(kind, name));
        let body = self.object(kind, name, &spec).to_string();
        self.send(Method::PATCH, &path, APPLY_PATCH, &body).await
    }

    /// The list of a kind, in the form that `accept` names.
    pub(crate) async fn list(&self, kind: &str, query: &str, accept: &str) -> Answer {
        let request = http::Request::get(format!("{}?{query}", self.path(kind, "")))
            .header(http::header::ACCEPT, accept)
            .body(Vec::new());
        answer(self.client.request(request.unwrap()).await)
    }

    async fn send(&self, method: Method, path: &str, content_type: &str, body: &str) -> Answer {
        let content_type = if content_type.is_empty() {
            "application/json"
        } else {
            content_type
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(body.as_bytes().to_vec());
        answer(self.client.request(request.unwrap()).await)
    }

    fn path(&self, kind: &str, name: &str) -> String {
        let plural = format!("{}s", kind.to_lowercase());
        let all = if cluster_scoped(kind) {
            format!("/apis/run-operator.dev/v1alpha1/{plural}")
        } else {
            let namespace = &self.namespace;
            format!("/apis/run-operator.dev/v1alpha1/namespaces/{namespace}/{plural}")
        };
        if name.is_empty() {
            all
        } else {
            format!("{all}/{}", self.name(kind, name))
        }
    }

    /// Cluster-scoped objects are seen by every test: each test has names of its own.
    pub(crate) fn name(&self, kind: &str, name: &str) -> String {
        if cluster_scoped(kind) {
            format!("{}.{name}", self.namespace)
        } else {
            name.to_owned()
        }
    }

    fn object(&self, kind: &str, name: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": "run-operator.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": self.name(kind, name)},
            "spec": spec,
        })
    }
}

fn cluster_scoped(kind: &str) -> bool {
    kind == "ClusterWorkspace"
}

fn answer(result: Result<Value, kube::Error>) -> Answer {
    match result {
        Ok(value) => Ok(value),
        Err(kube::Error::Api(status)) => Err(status),
        Err(error) => panic!("no answer of the API server: {error}"),
    }
}

/// Asserts a refusal as Invalid with `message` about the field at `path`.
#[track_caller]
pub(crate) fn assert_refused(answer: Answer, path: &str, message: &str) {
    let status = match answer {
        Err(status) => status,
        Ok(object) => panic!("not refused ({path}: {message}): {object}"),
    };
    let invalid = (status.code, status.reason.as_str());
    assert_eq!(invalid, (422, "Invalid"), "{}", status.message);
    let causes = status.details.map(|d| d.causes).unwrap_or_default();
    let says = |c: &StatusCause| c.field == path && c.message.contains(message);
    let said = causes.iter().any(says);
    assert!(said, "no cause says {message:?} of {path:?}: {causes:#?}");
}

/// Asserts a refusal whose message contains that `path` is immutable, and what to do instead.
#[track_caller]
pub(crate) fn assert_immutable(answer: Answer, path: &str, instead: &str) {
    if let Err(status) = &answer {
        let message = &status.message;
        assert!(message.contains("is immutable"), "{message}");
        assert!(message.contains(instead), "{message}");
    }
    let field = path.rsplit('.').next().unwrap_or(path);
    assert_refused(answer, path, &format!("{field} is immutable"));
}
