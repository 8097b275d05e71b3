{{/* What the operator's Pod and the Pod of `helm test` have in common. */}}

{{/* Where the contract file is mounted. */}}
{{- define "run-operator.contractFile" -}}
/etc/run-operator/contract.yaml
{{- end }}

{{/* Arguments about the service. */}}
{{- define "run-operator.serviceArgs" -}}
{{- with .Values.baseUrl }}
- --base-url={{ . }}
{{- end }}
{{- if .Values.allowInsecureHttp }}
- --allow-insecure-http
{{- end }}
{{- if .Values.h2c }}
- --h2c
{{- end }}
{{- if .Values.contract }}
- --contract={{ include "run-operator.contractFile" . }}
{{- end }}
{{- end }}

{{/* Image, environment, mounts and fences of a container. */}}
{{- define "run-operator.container" -}}
image: {{ include "run-operator.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.extraEnv }}
env:
  {{- include "run-operator.render" (list . $) | nindent 2 }}
{{- end }}
{{- with .Values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or .Values.contract .Values.extraVolumeMounts }}
volumeMounts:
  {{- if .Values.contract }}
  - name: contract
    mountPath: {{ dir (include "run-operator.contractFile" .) }}
    readOnly: true
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Where a Pod may run, in which network, with which volumes. */}}
{{- define "run-operator.placement" -}}
{{- $global := .Values.global | default dict }}
{{- with concat ($global.imagePullSecrets | default list) .Values.imagePullSecrets | uniq }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- $dnsPolicy := .Values.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" .Values.hostNetwork) }}
{{- with $dnsPolicy }}
dnsPolicy: {{ . | quote }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if or .Values.contract .Values.extraVolumes }}
volumes:
  {{- if .Values.contract }}
  - name: contract
    configMap:
      name: {{ include "run-operator.fullname" . }}-contract
  {{- end }}
  {{- with .Values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
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
