{{/* What the operator's Pod and the Pod of `helm test` have in common. */}}

{{/* Where the contract file is mounted. */}}
{{- define "run-operator.contractFile" -}}
/etc/run-operator/contract.yaml
{{- end }}

{{/* Arguments about the service. */}}
{{- define "run-operator.serviceArgs" -}}
{{- with .Values.baseURL }}
- --base-url={{ . }}
{{- end }}
{{- if .Values.allowInsecureHTTP }}
- --allow-insecure-http
{{- end }}
{{- if .Values.h2c }}
- --h2c
{{- end }}
{{- if .Values.contract }}
- --contract={{ include "run-operator.contractFile" . }}
{{- end }}
{{- end }}

{{/* Image, environment, mounts and fences of a container: the root, and further mounts. */}}
{{- define "run-operator.container" -}}
{{- $root := index . 0 }}
{{- $mounts := index . 1 }}
{{- if $root.Values.contract }}
{{- $file := include "run-operator.contractFile" $root }}
{{- $mounts = prepend $mounts (dict "name" "contract" "mountPath" (dir $file) "readOnly" true) }}
{{- end }}
image: {{ include "run-operator.image" $root | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
{{- with $root.Values.extraEnv }}
env:
  {{- include "run-operator.render" (list . $root) | nindent 2 }}
{{- end }}
{{- with $root.Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat $mounts $root.Values.extraVolumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The affinity that is given, and the architectures for which there are images. Every term must allow one of them;
     a term that names the architecture itself stays as it is, and so does everything where `nodeSelector` names it. */}}
{{- define "run-operator.affinity" -}}
{{- $root := index . 0 }}
{{- $affinity := deepCopy (index . 1 | default dict) }}
{{- $key := "kubernetes.io/arch" }}
{{- if and $root.Values.architectures (not (hasKey ($root.Values.nodeSelector | default dict) $key)) }}
{{- $images := dict "key" $key "operator" "In" "values" $root.Values.architectures }}
{{- $node := $affinity.nodeAffinity | default dict }}
{{- $required := $node.requiredDuringSchedulingIgnoredDuringExecution | default dict }}
{{- $terms := list }}
{{- range $required.nodeSelectorTerms | default (list dict) }}
{{- $expressions := .matchExpressions | default list }}
{{- $named := false }}
{{- range $expressions }}{{ if eq .key $key }}{{ $named = true }}{{ end }}{{ end }}
{{- if not $named }}{{ $expressions = append $expressions $images }}{{ end }}
{{- $terms = append $terms (merge (dict "matchExpressions" $expressions) .) }}
{{- end }}
{{- $required = merge (dict "nodeSelectorTerms" $terms) $required }}
{{- $node = merge (dict "requiredDuringSchedulingIgnoredDuringExecution" $required) $node }}
{{- $affinity = merge (dict "nodeAffinity" $node) $affinity }}
{{- end }}
{{- if $affinity }}{{ toYaml $affinity }}{{ end }}
{{- end }}

{{/* Where a Pod may run, in which network, with which volumes: the root, and further volumes. */}}
{{- define "run-operator.placement" -}}
{{- $root := index . 0 }}
{{- $volumes := index . 1 }}
{{- if $root.Values.contract }}
{{- $contract := dict "name" (printf "%s-contract" (include "run-operator.fullname" $root)) }}
{{- $volumes = prepend $volumes (dict "name" "contract" "configMap" $contract) }}
{{- end }}
{{- $global := $root.Values.global | default dict }}
{{- with concat ($global.imagePullSecrets | default list) $root.Values.imagePullSecrets | uniq }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $root.Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with $root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $root.Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- $dnsPolicy := $root.Values.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" $root.Values.hostNetwork) }}
{{- with $dnsPolicy }}
dnsPolicy: {{ . | quote }}
{{- end }}
{{- with $root.Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with concat $volumes $root.Values.extraVolumes }}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Topology spread constraints: the given ones, or what several Pods need to outlive a node and a zone. Where
     there is one node alone they share it. */}}
{{- define "run-operator.spread" -}}
{{- $given := .Values.topologySpreadConstraints }}
{{- if not (kindIs "invalid" $given) }}
{{- toYaml $given }}
{{- else if gt (int (include "run-operator.replicas" .)) 1 }}
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
{{- else }}
[]
{{- end }}
{{- end }}

{{/* A probe of a path. On the node's network the kubelet has to be told an address that isn't the Pod's. */}}
{{- define "run-operator.probe" -}}
{{- $path := index . 0 }}{{ $rest := index . 1 }}{{ $root := index . 2 }}
httpGet:
  path: {{ $path }}
  port: http
  {{- if and $root.Values.hostNetwork (not (has $root.Values.listen.address (list "0.0.0.0" "[::]"))) }}
  host: {{ trimAll "[]" $root.Values.listen.address | quote }}
  {{- end }}
{{- with $rest }}
{{ toYaml . }}
{{- end }}
{{- end }}
