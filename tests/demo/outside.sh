#!/usr/bin/env bash
# outside.sh NAMESPACE [SED-ARGUMENT...]: the world outside of agents: a model server and a remote MCP server, both
# https, in namespace agentd-demo-outside of the cluster of KUBECONFIG; and what NAMESPACE needs to reach them: tokens
# in Secrets model-token and remote-token, and the certificate authority in ConfigMap demo-ca. Certificates and tokens
# are made here, in .state, and committed nowhere. The sed arguments are applied to outside.yaml.
set -euo pipefail
# shellcheck source=../scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
namespace=$1
shift
outside=agentd-demo-outside
files=$ROOT/.state/demo
once outside

# The last is where the test cluster's pods reach this machine: cluster.sh offer.
"$SCRIPTS/certificates.sh" "$files" "model.$outside.svc" "remote.$outside.svc" 10.88.0.1
kubectl create namespace "$outside" --dry-run=client -o yaml | kubectl apply -f - >/dev/null
# The tokens are the same as long as there are any: others may use them.
for name in model remote; do
  token=$(kubectl -n "$outside" get secret "$name-token" --ignore-not-found -o 'jsonpath={.data.token}' | base64 -d)
  if [ "$name" = model ] && [ -n "${AGENTD_DEMO_MODEL_KEY:-}" ]; then token=$AGENTD_DEMO_MODEL_KEY; fi
  token=${token:-$(openssl rand -hex 24)}
  for each in "$outside" "$namespace"; do
    # On standard input: a command line can be read by everybody on the machine.
    printf %s "$token" | kubectl -n "$each" create secret generic "$name-token" --from-file=token=/dev/stdin --dry-run=client -o yaml
    echo "---"
  done
done | kubectl apply -f - >/dev/null
kubectl -n "$outside" create secret tls front-tls --cert "$files/tls.crt" --key "$files/tls.key" --dry-run=client -o yaml |
  kubectl apply -f - >/dev/null
kubectl -n "$namespace" create configmap demo-ca --from-file=ca.crt="$files/ca.crt" --dry-run=client -o yaml |
  kubectl apply -f - >/dev/null
sed -e '' "$@" "$ROOT/tests/demo/outside.yaml" | kubectl apply -f - >/dev/null
# A front reads its certificate once: another certificate, from another clone or after 30 days, is another pod.
certificate=$(sha256sum "$files/tls.crt" | cut -c1-16)
for deployment in $(kubectl -n "$outside" get deployments -o name); do
  kubectl -n "$outside" patch "$deployment" --type merge \
    -p "{\"spec\":{\"template\":{\"metadata\":{\"annotations\":{\"certificate\":\"$certificate\"}}}}}" >/dev/null
  kubectl -n "$outside" rollout status "$deployment" --timeout=120s >/dev/null
done
