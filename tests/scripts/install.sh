#!/usr/bin/env bash
# install.sh RELEASE NAMESPACE [HELM ARG...]: installs both charts into the cluster of KUBECONFIG, with the images of
# this tree. The images must be there already: see load-images.sh.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
release=$1 namespace=$2
shift 2
tag=$(basename "$("$SCRIPTS/build-static.sh")")
# Nothing of this machine's Helm is used or changed.
export HELM_CACHE_HOME=$CACHE/helm HELM_CONFIG_HOME=$CACHE/helm HELM_DATA_HOME=$CACHE/helm

# settle RELEASE: a run that was interrupted leaves its release pending, and Helm then refuses to touch it.
settle() {
  local state
  state=$(helm status "$1" --namespace "$namespace" --output json 2>/dev/null | python3 -c 'import json, sys; print(json.load(sys.stdin)["info"]["status"])' 2>/dev/null || true)
  case $state in
  pending-install) helm uninstall "$1" --namespace "$namespace" --wait >/dev/null ;;
  pending-*) helm rollback "$1" --namespace "$namespace" >/dev/null ;;
  esac
}

settle "$release-crds"
settle "$release"
step "installing the charts: CRDs, then release $release in namespace $namespace"
helm upgrade --install --wait --timeout 2m "$release-crds" "$ROOT/charts/agentd-crds" \
  --namespace "$namespace" --create-namespace >/dev/null
# The operator keeps to the strictest standard too.
kubectl label namespace "$namespace" pod-security.kubernetes.io/enforce=restricted --overwrite >/dev/null
helm upgrade --install --wait --timeout 3m "$release" "$ROOT/charts/agentd" --namespace "$namespace" \
  --set "image.registry=${IMAGE_REGISTRY:-registry.local}" --set "image.operator.tag=$tag" --set "image.agent.tag=$tag" \
  "$@" >/dev/null
