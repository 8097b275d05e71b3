{{/* What the operator's Pod and the Pod of `helm test` have in common. */}}

{{/* Where the contract file is mounted. */}}
{{- define "run-operator.contractFile" -}}
/etc/run-operator/contract.yaml
{{- end }}

{{/* Arguments about the service. */}}
{{- define "run-operator.serviceArgs" -}}
{{- with .Values.service.baseURL }}
- --base-url={{ . }}
{{- end }}
{{- if .Values.service.allowInsecureHTTP }}
- --allow-insecure-http
{{- end }}
{{- with .Values.service.proxy }}
- --service-proxy={{ . }}
{{- end }}
{{- if .Values.service.contract }}
- --contract={{ include "run-operator.contractFile" . }}
{{- end }}
{{- end }}

{{/* Image, environment, mounts and fences of a container: the root, and further mounts. */}}
{{- define "run-operator.container" -}}
{{- $root := index . 0 }}
{{- $mounts := index . 1 }}
{{- if $root.Values.service.contract }}
{{- $file := include "run-operator.contractFile" $root }}
{{- $mounts = prepend $mounts (dict "name" "contract" "mountPath" (dir $file) "readOnly" true) }}
{{- end }}
image: {{ include "run-operator.image" $root | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
{{- with $root.Values.extraEnv }}
env:
  {{- include "run-operator.render" (list . $root) | nindent 2 }}
{{- end }}
{{- with $root.Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
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

{{/* Where a Pod may run, in which network, with which volumes: the root, and further volumes. */}}
{{- define "run-operator.placement" -}}
{{- $root := index . 0 }}
{{- $volumes := index . 1 }}
{{- if $root.Values.service.contract }}
{{- $contract := dict "name" (printf "%s-contract" (include "run-operator.fullname" $root)) }}
{{- $volumes = prepend $volumes (dict "name" "contract" "configMap" $contract) }}
{{- end }}
{{- with concat $root.Values.global.imagePullSecrets $root.Values.imagePullSecrets | uniq }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.schedulerName }}
schedulerName: {{ . }}
{{- end }}
{{- if kindIs "bool" $root.Values.hostUsers }}
hostUsers: {{ $root.Values.hostUsers }}
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
{{- else if gt (int .Values.replicas) 1 }}
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

{{/* The Deployment's strategy. With Recreate, what was there of the other one has to be removed. */}}
{{- define "run-operator.strategy" -}}
{{- $type := .Values.strategy.type | default (ternary "RollingUpdate" "Recreate" .Values.leaderElection.enabled) -}}
type: {{ $type }}
{{- $rest := omit .Values.strategy "type" }}
{{- if $rest }}
{{ toYaml $rest }}
{{- else if eq $type "Recreate" }}
rollingUpdate: null
{{- else }}
{{- /* Two Pods can't share a port of a node, and another node may not exist. Elsewhere the new Pod waits with warm caches
       until the old one releases the Lease. */}}
rollingUpdate:
  maxSurge: {{ ternary 0 1 .Values.hostNetwork }}
  maxUnavailable: {{ ternary 1 0 .Values.hostNetwork }}
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
