{{/* The folder of the documents that the alerts lead to: the user's, that of the release's source, or that of the project's
     page. */}}
{{- define "run-operator.documents" -}}
{{- $documents := printf "%s/docs" .Chart.Home }}
{{- with .Chart.Sources }}
{{- $documents = printf "%s/blob/v%s/docs" (first .) $.Chart.Version }}
{{- end }}
{{- .Values.metrics.prometheusRule.runbookURL | default $documents | trimSuffix "/" }}
{{- end }}

{{/* The groups of alerts, with what the values change in them. */}}
{{- define "run-operator.alertGroups" -}}
{{- $values := .Values.metrics.prometheusRule }}
{{- $names := list }}
{{- $groups := list }}
{{- range $file := ternary (list "rules" "tenant-rules") (list "rules") $values.tenantAlerts }}
{{- range $group := ($.Files.Get (printf "files/%s.yaml" $file) | fromYaml).groups }}
{{- $rules := list }}
{{- range $rule := $group.rules }}
{{- $names = append $names $rule.alert }}
{{- if not (has $rule.alert $values.disabled) }}
{{- $rules = append $rules (include "run-operator.alert" (list $ $rule) | fromYaml) }}
{{- end }}
{{- end }}
{{- if $rules }}{{ $groups = append $groups (dict "name" $group.name "rules" $rules) }}{{ end }}
{{- end }}
{{- end }}
{{- range concat $values.disabled (keys $values.alerts) }}
{{- if not (has . $names) }}
{{- fail (printf "metrics.prometheusRule.disabled or metrics.prometheusRule.alerts names %s, and there are only %s" . (join ", " $names)) }}
{{- end }}
{{- end }}
{{- toYaml (dict "groups" $groups) }}
{{- end }}

{{/* One alert: the root and the rule. */}}
{{- define "run-operator.alert" -}}
{{- $root := index . 0 }}{{ $rule := index . 1 }}
{{- $values := $root.Values.metrics.prometheusRule }}
{{- $own := get $values.alerts $rule.alert | default dict }}
{{- if hasKey $own "threshold" }}
{{- if not (regexMatch "> [0-9.]+$" $rule.expr) }}
{{- fail (printf "metrics.prometheusRule.alerts.%s.threshold: this alert has no threshold, only `for` and `severity`" $rule.alert) }}
{{- end }}
{{- $_ := set $rule "expr" (regexReplaceAll "[0-9.]+$" $rule.expr (toString $own.threshold)) }}
{{- end }}
{{- $severity := pick $own "severity" }}
{{- $page := $rule.annotations.runbook_url | replace "docs/" (printf "%s/" (include "run-operator.documents" $root)) }}
{{- $_ := set $rule "labels" (merge $severity $rule.labels $values.alertLabels) }}
{{- $_ := set $rule "annotations" (merge (dict "runbook_url" $page) $rule.annotations $values.alertAnnotations) }}
{{- toYaml (merge (pick $own "for") $rule) }}
{{- end }}
