{{/* Helm removes a value that is null, with all that is below it. This puts back what it then is, and is the first line of
     every template. */}}
{{- define "run-operator.values" -}}
{{- include "run-operator.fill" (list .Values (.Files.Get "files/unset.yaml" | fromYaml)) }}
{{- end }}

{{- define "run-operator.fill" -}}
{{- $values := index . 0 }}
{{- range $name, $unset := index . 1 }}
{{- if kindIs "invalid" (index $values $name) }}
{{- $_ := set $values $name $unset }}
{{- else if kindIs "map" $unset }}
{{- include "run-operator.fill" (list (index $values $name) $unset) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The chart's name. */}}
{{- define "run-operator.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name of every object: the release's, with the chart's where it is not in it already. Ten letters
     are left for what is appended. */}}
{{- define "run-operator.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" }}
{{- else }}
{{- $name := include "run-operator.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 53 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/* The namespace of every object that has one. Helm keeps its own records in the release's, whatever this is. */}}
{{- define "run-operator.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{/* The name of what is in no namespace, or in one that is not the release's alone: two releases of one name, in two
     namespaces, don't meet. */}}
{{- define "run-operator.clustername" -}}
{{- $fullname := include "run-operator.fullname" . }}
{{- if eq $fullname (include "run-operator.namespace" .) }}
{{- $fullname }}
{{- else }}
{{- printf "%s:%s" (include "run-operator.namespace" .) $fullname }}
{{- end }}
{{- end }}

{{- define "run-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "run-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels and annotations of an object: the root, further labels, further annotations. Of a name that several have the
     chart's own value counts, then the given one, then the common one. */}}
{{- define "run-operator.metadata" -}}
{{- $root := first . }}
{{- $labels := include "run-operator.selectorLabels" $root | fromYaml }}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") }}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service }}
{{- $_ := set $labels "app.kubernetes.io/part-of" "run-operator" }}
{{- $given := append (append . dict) dict -}}
labels:
  {{- toYaml (merge $labels (index $given 1) $root.Values.commonLabels) | nindent 2 }}
{{- with merge dict (index $given 2) $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What makes the controller's Pod out among those of the release. */}}
{{- define "run-operator.component" -}}
app.kubernetes.io/component: controller
{{- end }}

{{- define "run-operator.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "run-operator.fullname" .) }}
{{- end }}

{{/* The image; a digest wins over a tag. */}}
{{- define "run-operator.image" -}}
{{- with .Values.global.imageRegistry | default .Values.image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .Values.image.repository }}
{{- with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The name of the port that serves the metrics. */}}
{{- define "run-operator.metricsPort" -}}
{{- ternary "https" "http" .Values.metrics.secure.enabled }}
{{- end }}

{{/* Whether ClusterWorkspaces are served: "true" or "false". */}}
{{- define "run-operator.clusterWorkspaces" -}}
{{- $enabled := .Values.clusterWorkspaces.enabled }}
{{- if kindIs "bool" $enabled }}{{ $enabled }}{{ else }}{{ empty .Values.watchNamespaces }}{{ end }}
{{- end }}

{{- define "run-operator.clusterWorkspacesNamespace" -}}
{{- .Values.clusterWorkspaces.namespace | default (include "run-operator.namespace" .) }}
{{- end }}

{{/* Whether the policy that keeps workloads as they are is part of the release: "true" or "false". */}}
{{- define "run-operator.workloadPolicy" -}}
{{- $enabled := .Values.workloadPolicy.enabled }}
{{- if kindIs "bool" $enabled }}{{ $enabled }}{{ else }}{{ .Values.crds.enabled }}{{ end }}
{{- end }}

{{/* The namespace whose Workspaces `helm test` looks at. */}}
{{- define "run-operator.testNamespace" -}}
{{- .Values.test.namespace | default (first .Values.watchNamespaces) | default (include "run-operator.namespace" .) }}
{{- end }}

{{/* What an admission policy's binding matches: these namespaces. */}}
{{- define "run-operator.onlyIn" -}}
matchPolicy: Equivalent
objectSelector: {}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: In
      values:
        {{- toYaml . | nindent 8 }}
{{- end }}

{{/* Maps or texts, with the templates in them filled in. */}}
{{- define "run-operator.render" -}}
{{- $value := index . 0 }}
{{- if not (kindIs "string" $value) }}{{ $value = toYaml $value }}{{ end }}
{{- tpl $value (index . 1) }}
{{- end }}
