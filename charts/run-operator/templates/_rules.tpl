{{/* What the operator may do, and no more: every verb is used and none is missing, which a test reads from
     the API server's audit log (but for those of schedules.enabled). Not here, and not needed: other Secrets than
     those named, Pods, ConfigMaps, impersonation and `*`. */}}

{{/* In the namespaces that it watches. */}}
{{- define "run-operator.rules" -}}
# Runs. list and watch: to follow them, and to check before a Workspace is removed that none needs it any more.
# patch: the finalizer and the intent, without which nothing is submitted. update: to remove the last finalizer
# of a deleted one, by its uid; by a patch the API server could remove the next object of the name. delete:
# spec.ttlSecondsAfterFinished.
- apiGroups: [run-operator.dev]
  resources: [runs]
  verbs: [list, watch, patch, update, delete]
# Workspaces. list and watch: to follow them. patch: the finalizer, by which a Workspace outlives the Runs
# that it submitted. update: as for Runs.
- apiGroups: [run-operator.dev]
  resources: [workspaces]
  verbs: [list, watch, patch, update]
# The statuses. Grant runs/status only to the operator: docs/security.md.
- apiGroups: [run-operator.dev]
  resources: [runs/status, workspaces/status]
  verbs: [patch]
{{- if .Values.schedules.enabled }}
# For schedules.enabled. RunSchedules and RunTemplates, list and watch: to follow the schedules, and what their Runs are
# made from. Neither is ever changed.
- apiGroups: [run-operator.dev]
  resources: [runschedules, runtemplates]
  verbs: [list, watch]
# Their statuses: a tick is written there before its Run is created.
- apiGroups: [run-operator.dev]
  resources: [runschedules/status]
  verbs: [patch]
# The Run of a tick. To cancel it (concurrencyPolicy: Replace) and to delete it (the history) is permitted above.
- apiGroups: [run-operator.dev]
  resources: [runs]
  verbs: [create]
# Where the API server has OwnerReferencesPermissionEnforcement, as OpenShift's: else no Run could be owned by its
# RunSchedule with blockOwnerDeletion. No request has this path.
- apiGroups: [run-operator.dev]
  resources: [runschedules/finalizers]
  verbs: [update]
{{- end }}
{{- include "run-operator.secretRules" . }}
{{ include "run-operator.eventRules" . }}
{{- end }}

{{- define "run-operator.eventRules" -}}
# Kubernetes Events about Runs, Workspaces and RunSchedules (docs/events.md); those about a ClusterWorkspace are in the
# namespace default.
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}

{{/* An empty list of resourceNames would be every Secret: then there is no rule. */}}
{{- define "run-operator.secretRules" -}}
{{- with .Values.tokenSecretNames }}
# The tokens, only by name. get: to read one. list and watch, of this one name: to see a new token at once;
# without these two it is seen at a 401 or within 30 s. A Workspace that names another Secret in
# spec.tokenSecretRef or spec.caSecretRef shows SecretForbidden until its name is here.
- apiGroups: [""]
  resources: [secrets]
  resourceNames:
    {{- toYaml . | nindent 4 }}
  verbs: [get, list, watch]
{{- end }}
{{- end }}

{{/* For ClusterWorkspaces, in the whole cluster. */}}
{{- define "run-operator.clusterRules" -}}
# ClusterWorkspaces, as Workspaces.
- apiGroups: [run-operator.dev]
  resources: [clusterworkspaces]
  verbs: [list, watch, patch, update]
- apiGroups: [run-operator.dev]
  resources: [clusterworkspaces/status]
  verbs: [patch]
# Their labels, for the namespaceSelector of ClusterWorkspaces; and whether one is being deleted, since no
# Secret can be created there any more.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- end }}

{{/* For the leader election, in the release's namespace. */}}
{{- define "run-operator.leaseRules" -}}
# The Lease by which one of several Pods leads. create, which can't be had by name: where there is none yet. get: to read
# its holder. update: to acquire, renew and release it.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "run-operator.fullname" . }}]
  verbs: [get, update]
{{- end }}

{{/* For the metrics over TLS, in the whole cluster: both reviews are of no namespace. */}}
{{- define "run-operator.metricsAuthRules" -}}
# Whose token a scraper has. Such a request stores nothing, and needs a token to ask about.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
# Whether that user may get /metrics. It also answers what any user may do anywhere, and stores nothing.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}

{{/* For `helm test`, in the namespace that it looks at. */}}
{{- define "run-operator.testWorkspaceRules" -}}
# Whether its Workspaces are Ready and why not.
- apiGroups: [run-operator.dev]
  resources: [workspaces]
  verbs: [list]
{{- end }}

{{/* For `helm test`, in the whole cluster. */}}
{{- define "run-operator.testClusterRules" -}}
# Whether the ClusterWorkspaces that allow the namespace are Ready.
- apiGroups: [run-operator.dev]
  resources: [clusterworkspaces]
  verbs: [list]
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [{{ include "run-operator.testNamespace" . }}]
  verbs: [get]
{{- end }}

{{/* For `helm test`, in the release's namespace. */}}
{{- define "run-operator.testOperatorRules" -}}
# Whether an operator is active: its Deployment, and with an election its Lease.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "run-operator.fullname" . }}]
  verbs: [get]
- apiGroups: [apps]
  resources: [deployments]
  resourceNames: [{{ include "run-operator.fullname" . }}]
  verbs: [get]
{{- end }}

{{/* Annotations of the objects that give `helm test` its rights. */}}
{{- define "run-operator.testHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: "-1"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end }}

{{/* A binding's subject: the operator. */}}
{{- define "run-operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "run-operator.serviceAccountName" . }}
  namespace: {{ include "run-operator.namespace" . }}
{{- end }}
