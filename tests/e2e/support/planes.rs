//! The control planes: one that all tests share, two that a world has to itself while it lasts, and those with
//! something of their own.

use std::sync::Mutex;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use run_operator::api::{crd, names};
use test_cluster::{ControlPlane, Options};

use super::permissions::DEPLOYED;
use super::wait::gone;

/// The control plane of a world.
#[derive(Default)]
pub(crate) enum Plane {
    /// The one of this process, or the given cluster.
    #[default]
    Shared,
    /// One that nobody else uses while the world lasts, and that is empty at its beginning. For operators that serve
    /// every namespace, for counts of requests, and for outages.
    Alone,
    /// With the controller manager: deletion of namespaces, garbage collection.
    Managed,
    /// Whose API server takes any spec and status of Runs and Workspaces, as an older or a newer schema might.
    Loose,
    /// The test's own ([`own_control_plane`]).
    Own(&'static ControlPlane),
}

/// Worlds that may be alone at the same time.
const LONELY: usize = 2;
static PLACES: Semaphore = Semaphore::const_new(LONELY);
/// Those of them that nobody uses now.
static FREE: Mutex<Vec<&'static ControlPlane>> = Mutex::new(Vec::new());

/// A control plane in use, with the CRDs. One that is to be alone is free again when this is dropped.
pub(crate) struct InUse {
    pub(crate) control_plane: &'static ControlPlane,
    alone: Option<SemaphorePermit<'static>>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        // What a failed test leaves behind may be an API server that is down.
        if self.alone.is_some() && !std::thread::panicking() {
            FREE.lock().unwrap().push(self.control_plane);
        }
    }
}

impl InUse {
    pub(super) async fn new(plane: Plane) -> Self {
        static SHARED: OnceCell<()> = OnceCell::const_new();
        static MANAGED: OnceCell<&'static ControlPlane> = OnceCell::const_new();
        static LOOSE: OnceCell<&'static ControlPlane> = OnceCell::const_new();
        let mut alone = None;
        let control_plane = match plane {
            Plane::Shared => {
                let shared = ControlPlane::shared().await;
                SHARED.get_or_init(|| install(shared)).await;
                shared
            }
            Plane::Alone => {
                alone = Some(PLACES.acquire().await.unwrap());
                let free = FREE.lock().unwrap().pop();
                match free {
                    Some(used) => {
                        clear(used).await;
                        used
                    }
                    None => started(Options::default()).await,
                }
            }
            Plane::Managed => {
                let options = Options {
                    controller_manager: true,
                    ..Options::default()
                };
                MANAGED.get_or_init(|| started(options)).await
            }
            Plane::Loose => {
                let loosened = async || {
                    let own = started(Options::default()).await;
                    loosen(own).await;
                    own
                };
                LOOSE.get_or_init(loosened).await
            }
            Plane::Own(own) => own,
        };
        Self {
            control_plane,
            alone,
        }
    }
}

/// A control plane of a test's own, with the CRDs. It lasts as long as the process, which ends it.
pub(crate) async fn own_control_plane() -> &'static ControlPlane {
    started(Options::default()).await
}

/// The same, whose audit log holds the bodies of requests.
pub(crate) async fn audited_control_plane() -> &'static ControlPlane {
    kept(ControlPlane::start_with_audited_bodies().await.unwrap()).await
}

/// The same, whose API server checks that who names an owner with `blockOwnerDeletion` may hold that up, as that of
/// `OpenShift` does.
pub(crate) async fn owner_checking_control_plane() -> &'static ControlPlane {
    let plugin = "OwnerReferencesPermissionEnforcement";
    kept(ControlPlane::start_with_admission(plugin).await.unwrap()).await
}

async fn started(options: Options) -> &'static ControlPlane {
    kept(ControlPlane::start(options).await.unwrap()).await
}

async fn kept(control_plane: ControlPlane) -> &'static ControlPlane {
    install(&control_plane).await;
    Box::leak(Box::new(control_plane))
}

async fn install(control_plane: &ControlPlane) {
    let crds = crd::yaml().unwrap();
    control_plane.apply_yaml(&crds).await.unwrap();
}

/// Removes every object of ours, and the Lease of operators with the rights of `deploy/`. Namespaces stay, and what else
/// is in them.
async fn clear(control_plane: &ControlPlane) {
    let client = control_plane.client().await.unwrap();
    for kind in [
        "RunSchedule",
        "RunTemplate",
        "Run",
        "Workspace",
        "ClusterWorkspace",
    ] {
        let kind = GroupVersionKind::gvk(names::GROUP, names::VERSION, kind);
        let resource = ApiResource::from_gvk(&kind);
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        for object in all.list(&ListParams::default()).await.unwrap() {
            let api = match object.namespace() {
                Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
                None => all.clone(),
            };
            let (name, params) = (object.name_any(), PatchParams::default());
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            api.patch(&name, &params, &free).await.unwrap();
            // One that was being deleted is gone with its finalizer.
            let _ = api.delete(&name, &DeleteParams::default()).await;
            gone(&api, &name).await;
        }
    }
    let leases: Api<Lease> = Api::namespaced(client, DEPLOYED);
    // There is one only after an operator with these rights.
    let _ = leases.delete(DEPLOYED, &DeleteParams::default()).await;
}

/// Lets the API server take anything for a Run or a Workspace.
async fn loosen(control_plane: &ControlPlane) {
    let client = control_plane.client().await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(client);
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    for name in ["runs.run-operator.dev", "workspaces.run-operator.dev"] {
        let mut crd = crds.get(name).await.unwrap();
        let version = &mut crd.spec.versions[0];
        version.selectable_fields = None;
        version.schema = Some(serde_json::from_value(json!({"openAPIV3Schema": open})).unwrap());
        let replaced = crds.replace(name, &PostParams::default(), &crd).await;
        replaced.unwrap();
    }
}
