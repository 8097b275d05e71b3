#!/usr/bin/env bash
# Has the API server store every object in another API version that it already stores new ones in:
# `deploy/migrate-stored.sh v1beta1`. It changes no field, so that the operator may work meanwhile. An object that is
# deleted meanwhile ends it: start it again.
set -euo pipefail
version=${1:?usage: migrate-stored.sh VERSION}

for kind in runs workspaces clusterworkspaces runschedules runtemplates; do
  kubectl get $kind.run-operator.dev --all-namespaces \
    -o jsonpath='{range .items[*]}{.metadata.name} {.metadata.namespace}{"\n"}{end}' |
  while read -r name namespace; do
    kubectl patch $kind.run-operator.dev "$name" ${namespace:+--namespace "$namespace"} --type=merge -p '{}'
  done
  # The API server doesn't check this record, and can't read an object in a version that no CRD has: only after them all.
  kubectl patch crd $kind.run-operator.dev --subresource=status --type=merge \
    -p "{\"status\": {\"storedVersions\": [\"$version\"]}}"
done
