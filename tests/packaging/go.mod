// The CRDs of ServiceMonitor, PodMonitor and PrometheusRule: read from the module, nothing is built.
module run-operator.dev/tests/packaging

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
