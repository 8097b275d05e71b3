{{/* Combinations of values, which the schema can't check: refused here with a message, instead of a Pod that
     doesn't start or a Workspace that no operator serves. */}}
{{- define "run-operator.check" -}}
{{- $named := or .Values.global.imageRegistry .Values.image.registry (regexMatch "^(localhost|[^/]*[.:][^/]*)/" .Values.image.repository) }}
{{- if not (or $named (eq .Values.image.pullPolicy "Never")) }}
{{- fail (printf "image.registry is not set, and no registry has %s: set it to the registry to which you pushed the image (docs/install.md#the-image); where the nodes have the image already, such as by `kind load`, set image.pullPolicy to Never instead" (include "run-operator.image" .)) }}
{{- end }}
{{- /* Also as a variable or a flag; what extraEnvFrom has is not known. */}}
{{- $elsewhere := regexMatch "RUN_OPERATOR_(ALLOWED_)?BASE_URL|--(allowed-)?base-url" (toJson (list .Values.extraEnv .Values.extraArgs)) }}
{{- with .Values.service }}
{{- if not (or .baseURL .allowedBaseURLs $elsewhere $.Values.extraEnvFrom) }}
{{- fail "service.baseURL is not set: set it to the base URL of the service, such as https://runs.example.com/api/v1; where each Workspace names its own, set service.allowedBaseURLs to those instead" }}
{{- end }}
{{- if not .allowInsecureHTTP }}
{{- range concat (list .baseURL) .allowedBaseURLs }}
{{- if and (hasPrefix "http://" .) (not (regexMatch "^http://(localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?(/|$)" .)) }}
{{- fail (printf "%s in service.baseURL or service.allowedBaseURLs is plain http, by which tokens could be read: use https, or set service.allowInsecureHTTP" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- with .contract }}
{{- if not (and (kindIs "map" (fromYaml .)) (not (hasKey (fromYaml .) "Error"))) }}
{{- fail "service.contract is not the content of a contract file, which is a YAML map: give a file with --set-file service.contract=FILE, and try it with `kubectl runop contract check --contract FILE --base-url URL`" }}
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
{{- if and .enabled (not .ingress.from) (not .extraIngress) (or $metrics.serviceMonitor.enabled $metrics.podMonitor.enabled) }}
{{- fail "networkPolicy.ingress.from is empty, and a ServiceMonitor or PodMonitor is enabled: Prometheus could not scrape; name it in networkPolicy.ingress.from" }}
{{- end }}
{{- end }}
{{- with .Values.metrics }}
{{- range $part := list "serviceMonitor" "podMonitor" "prometheusRule" "dashboard" }}
{{- if and (get $.Values.metrics $part).enabled (not $.Values.metrics.enabled) }}
{{- fail (printf "metrics.%s.enabled is true, and metrics.enabled is false: set metrics.enabled to true, or metrics.%s.enabled to false" $part $part) }}
{{- end }}
{{- end }}
{{- if and (or .prometheusRule.tenantAlerts .prometheusRule.alerts .prometheusRule.disabled) (not .prometheusRule.enabled) }}
{{- fail "metrics.prometheusRule.tenantAlerts, alerts and disabled have no effect without metrics.prometheusRule.enabled: set it to true" }}
{{- end }}
{{- if and .serviceMonitor.enabled .podMonitor.enabled }}
{{- fail "metrics.podMonitor.enabled and metrics.serviceMonitor.enabled would count every metric twice: enable one" }}
{{- end }}
{{- if and .serviceMonitor.enabled (not .service.enabled) }}
{{- fail "metrics.serviceMonitor.enabled needs metrics.service.enabled; without a Service use metrics.podMonitor.enabled" }}
{{- end }}
{{- if and .secure.enabled (eq (int .secure.port) (int $.Values.listen.port)) }}
{{- fail (printf "metrics.secure.port and listen.port are both %d: the metrics over TLS need a port of their own" (int $.Values.listen.port)) }}
{{- end }}
{{- end }}
{{- if and .Values.finalizerPolicy.enabled (semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail (printf "finalizerPolicy.enabled needs Kubernetes 1.36, which has MutatingAdmissionPolicy; this is %s" .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- $replicas := int .Values.replicas }}
{{- if and (gt $replicas 1) (not .Values.leaderElection.enabled) }}
{{- fail (printf "replicas is %d, and leaderElection.enabled is false: of several Pods one has to lead, else all of them make the same calls and writes" $replicas) }}
{{- end }}
{{- with .Values.test }}
{{- if and .enabled .namespace $.Values.watchNamespaces (not (has .namespace $.Values.watchNamespaces)) }}
{{- fail (printf "test.namespace is %s, which is not one of watchNamespaces: no operator serves its Workspaces" .namespace) }}
{{- end }}
{{- end }}
{{- with .Values.podDisruptionBudget }}
{{- if and (not (kindIs "invalid" .minAvailable)) (not (kindIs "invalid" .maxUnavailable)) }}
{{- fail "podDisruptionBudget takes minAvailable or maxUnavailable, not both" }}
{{- end }}
{{- end }}
{{- end }}
