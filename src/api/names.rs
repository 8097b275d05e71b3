//! Names that scripts and manifests rely on. Changing one breaks existing clusters.

pub const GROUP: &str = "run-operator.dev";
pub const VERSION: &str = "v1alpha1";
pub const FIELD_MANAGER: &str = "run-operator";
/// Finalizer: keeps a Run until its run is known to have ended, and a Workspace while submitted Runs need it.
pub const FINALIZER: &str = "run-operator.dev/cancel";
/// Annotation with the [`Intent`](super::Intent), written before the first POST.
pub const INTENT_ANNOTATION: &str = "run-operator.dev/intent";
/// Annotation that a user sets to a new value to retry a refused Run.
pub const RETRY_ANNOTATION: &str = "run-operator.dev/retry";
/// Annotation of a Run that was made from a RunTemplate: its name and generation, as in `nightly@3`.
pub const TEMPLATE_ANNOTATION: &str = "run-operator.dev/template";
/// Annotation of a Run that a RunSchedule made: the time of its tick.
pub const SCHEDULED_ANNOTATION: &str = "run-operator.dev/scheduled-time";
/// Workspace that a Run without `workspaceRef` uses.
pub const DEFAULT_WORKSPACE: &str = "default";
/// Annotation, `"true"`, of the ClusterWorkspace that serves the Runs without `workspaceRef` where there is no Workspace
/// `default`.
pub const IS_DEFAULT_ANNOTATION: &str = "run-operator.dev/is-default";
/// Provider and region of a Run that names none.
pub const AUTO: &str = "auto";
/// `spec.managedBy` of the Runs that this operator runs, as those without one.
pub const MANAGED_BY: &str = "run-operator.dev/run-operator";
/// Secret with the token if a Workspace names none.
pub const DEFAULT_TOKEN_SECRET: &str = "run-operator-token";
pub const DEFAULT_TOKEN_KEY: &str = "token";
pub const DEFAULT_CA_KEY: &str = "ca.crt";

/// Annotation of Argo CD on the objects that it tracks, unless it tracks by a label, whose name is a setting.
pub const ARGO_TRACKING: &str = "argocd.argoproj.io/tracking-id";
/// Field manager of what Argo CD applies, on the client's side and on the server's.
pub const ARGO_APPLIES: &str = "argocd-controller";
/// Field manager of what Argo CD creates or replaces (`Replace=true`, and all that releases before 2.5 apply).
pub const ARGO_REPLACES: &str = "argocd-application-controller";
pub const ARGO_HOOK: &str = "argocd.argoproj.io/hook";
/// Label of Flux on the objects that a Kustomization applies.
pub const FLUX_KUSTOMIZATION: &str = "kustomize.toolkit.fluxcd.io/name";
/// Label of Flux on the objects that a `HelmRelease` applies.
pub const FLUX_HELM: &str = "helm.toolkit.fluxcd.io/name";
pub const HELM_RELEASE: &str = "meta.helm.sh/release-name";
/// Annotation of a hook of Helm; Argo CD takes it for one of its own.
pub const HELM_HOOK: &str = "helm.sh/hook";
