{{/* Combinations of values, which the schema can't check: refused here with a message, instead of a Pod that
     doesn't start or a Workspace that no operator serves. */}}
{{- define "run-operator.check" -}}
{{- if not .Values.allowInsecureHTTP }}
{{- range concat (list .Values.baseURL) .Values.allowedBaseURLs }}
{{- if and (hasPrefix "http://" .) (not (regexMatch "^http://(localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?(/|$)" .)) }}
{{- fail (printf "%s in baseURL or allowedBaseURLs is plain http, by which tokens could be read: use https, or set allowInsecureHTTP" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.create is false, and serviceAccount.name is not set: the operator's roles would be bound to the namespace's account default, and so to every Pod that names no other; set serviceAccount.name to the account that you made for the operator" }}
{{- end }}
{{- if eq (toString .Values.serviceAccount.name) "default" }}
{{- fail "serviceAccount.name is default: every Pod of the namespace that names no other account would have the operator's rights; name an account of the operator's own" }}
{{- end }}
{{- with .Values.networkPolicy }}
{{- if and .enabled (not .egress.apiServerTo) }}
{{- fail "networkPolicy.enabled needs networkPolicy.egress.apiServerTo, the addresses of the API server: `kubectl -n default get endpointslices -l kubernetes.io/service-name=kubernetes` shows them; for any, [{ipBlock: {cidr: 0.0.0.0/0}}]" }}
{{- end }}
{{- if and .enabled (not .egress.serviceTo) }}
{{- fail "networkPolicy.enabled needs networkPolicy.egress.serviceTo, the addresses of the service: [{ipBlock: {cidr: 192.0.2.0/24}}]; for any, [{ipBlock: {cidr: 0.0.0.0/0}}]" }}
{{- end }}
{{- $metrics := $.Values.metrics }}
{{- if and .enabled (not .ingress.from) (not .extraIngress) $metrics.enabled (or $metrics.serviceMonitor.enabled $metrics.podMonitor.enabled) }}
{{- fail "networkPolicy.ingress.from is empty, and a ServiceMonitor or PodMonitor is enabled: Prometheus could not scrape; name it in networkPolicy.ingress.from" }}
{{- end }}
{{- end }}
{{- if and .Values.finalizerPolicy.enabled (semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail (printf "finalizerPolicy.enabled needs Kubernetes 1.36, which has MutatingAdmissionPolicy; this is %s" .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- with .Values.contract }}
{{- if not (and (kindIs "map" (fromYaml .)) (not (hasKey (fromYaml .) "Error"))) }}
{{- fail "contract is not the content of a contract file, which is a YAML map: give a file with --set-file contract=FILE, and try it with `kubectl runop contract check --contract FILE --base-url URL`" }}
{{- end }}
{{- end }}
{{- $replicas := int (include "run-operator.replicas" .) }}
{{- /* 1 is the default, and so it counts as not set. */}}
{{- if not (has (int .Values.replicas) (list 1 $replicas)) }}
{{- fail (printf "replicas is %d and replicaCount is %d: they are two names of one value, set one of them" (int .Values.replicas) $replicas) }}
{{- end }}
{{- if and (gt $replicas 1) (not .Values.leaderElection.enabled) }}
{{- fail (printf "replicas is %d, and leaderElection.enabled is false: of several Pods one has to lead, else all of them make the same calls and writes" $replicas) }}
{{- end }}
{{- if and .Values.metrics.secure.enabled (eq (int .Values.metrics.secure.port) (int .Values.listen.port)) }}
{{- fail (printf "metrics.secure.port and listen.port are both %d: the metrics over TLS need a port of their own" (int .Values.listen.port)) }}
{{- end }}
{{- with .Values.defaultWorkspace }}
{{- $namespace := .namespace | default (include "run-operator.namespace" $) }}
{{- if and .enabled $.Values.watchNamespaces (not (has $namespace $.Values.watchNamespaces)) }}
{{- fail (printf "defaultWorkspace.namespace is %s, which is not one of watchNamespaces: no operator would serve the Workspace" $namespace) }}
{{- end }}
{{- end }}
{{- with .Values.podDisruptionBudget }}
{{- if and .enabled (not (kindIs "invalid" .minAvailable)) (not (kindIs "invalid" .maxUnavailable)) }}
{{- fail "podDisruptionBudget takes minAvailable or maxUnavailable, not both" }}
{{- end }}
{{- end }}
{{- end }}
