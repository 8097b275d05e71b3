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

{{/* The name of what is in no namespace: two releases of one name, in two namespaces, don't meet. */}}
{{- define "run-operator.clustername" -}}
{{- $fullname := include "run-operator.fullname" . }}
{{- if eq $fullname .Release.Namespace }}
{{- $fullname }}
{{- else }}
{{- printf "%s:%s" .Release.Namespace $fullname }}
{{- end }}
{{- end }}

{{- define "run-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "run-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "run-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: run-operator
{{ include "run-operator.selectorLabels" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "run-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- .Values.serviceAccount.name | default (include "run-operator.fullname" .) }}
{{- else }}
{{- .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{/* The image; a digest wins over a tag. */}}
{{- define "run-operator.image" -}}
{{- $global := .Values.global | default dict }}
{{- $registry := $global.imageRegistry | default .Values.image.registry }}
{{- with $registry }}{{ trimSuffix "/" . }}/{{ end }}{{ .Values.image.repository }}
{{- with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Whether ClusterWorkspaces are served: "true" or "false". */}}
{{- define "run-operator.clusterWorkspaces" -}}
{{- $enabled := .Values.clusterWorkspaces.enabled }}
{{- if kindIs "bool" $enabled }}{{ $enabled }}{{ else }}{{ empty .Values.watchNamespaces }}{{ end }}
{{- end }}

{{- define "run-operator.clusterWorkspacesNamespace" -}}
{{- .Values.clusterWorkspaces.namespace | default .Release.Namespace }}
{{- end }}

{{/* The namespace in which `helm test` applies a Run without storing it. */}}
{{- define "run-operator.testNamespace" -}}
{{- $first := first .Values.watchNamespaces | default .Release.Namespace }}
{{- .Values.test.namespace | default $first }}
{{- end }}

{{/* Maps or texts, with the templates in them filled in. */}}
{{- define "run-operator.render" -}}
{{- $value := index . 0 }}
{{- if not (kindIs "string" $value) }}{{ $value = toYaml $value }}{{ end }}
{{- tpl $value (index . 1) }}
{{- end }}
