#!/usr/bin/env bash
# generate.sh [--check]: writes the generated files that are committed: the CRDs, their copies in the chart,
# runtime/CLI.md and manifests/install.yaml. With --check it writes nothing, shows what differs and fails if anything does.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# Helm, at the version that the committed file was made with.
"$ROOT/tests/cluster/build.sh" tools
PATH=$("$CLUSTER" tools):$PATH
export HELM_CACHE_HOME=$CACHE/helm HELM_CONFIG_HOME=$CACHE/helm HELM_DATA_HOME=$CACHE/helm

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
mkdir -p "$new/crds/generated" "$new/charts/agentd-crds/files" "$new/manifests" "$new/runtime"

(cd "$ROOT" && cargo run --quiet --locked -p agentd-crds --bin crdgen -- "$new/crds/generated")
cp "$new"/crds/generated/*.yaml "$new/charts/agentd-crds/files/"
(cd "$ROOT" && cargo run --quiet --locked -p agentd -- reference) >"$new/runtime/CLI.md"

{
  echo "# Generated from charts/ by tests/scripts/generate.sh; do not edit."
  cat <<'YAML'
---
apiVersion: v1
kind: Namespace
metadata:
  name: agentd-system
  labels:
    pod-security.kubernetes.io/enforce: restricted
YAML
  for file in "$new"/crds/generated/*.yaml; do
    echo "---"
    cat "$file"
  done
  # Not Helm's, when applied like this.
  helm template agentd "$ROOT/charts/agentd" --namespace agentd-system |
    sed -e '/^ *app.kubernetes.io\/managed-by: Helm$/d' -e '/^ *helm.sh\/chart: /d' -e '/^# Source: /d'
} >"$new/manifests/install.yaml"

changed=0
while read -r file; do
  if ! diff -u --label "committed $file" --label "generated $file" "$ROOT/$file" "$new/$file" >&2; then
    changed=1
    if [ "${1:-}" != --check ]; then
      mkdir -p "$(dirname "$ROOT/$file")"
      cp "$new/$file" "$ROOT/$file"
    fi
  fi
done < <(cd "$new" && find . -type f | sed 's|^\./||' | sort)
if [ "${1:-}" = --check ] && [ "$changed" = 1 ]; then die "generated files are not what is committed; run: make generate"; fi
