#!/usr/bin/env bash
# clean.sh [all]: ends the clusters of demo and tests and removes their state. With `all` also what was built and
# fetched, the test cluster's programs included.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
for state in "$DEMO_STATE" "$E2E_STATE" "$API_STATE"; do
  [ ! -e "$state" ] || step "taking down the cluster of $state"
  KUBE_TEST_STATE=$state "$CLUSTER" down
done
if [ -e "$ROOT/.state/demo/front.pid" ]; then kill "$(<"$ROOT/.state/demo/front.pid")" 2>/dev/null || true; fi
rm -rf "$ROOT/.state"
if [ "${1:-}" = all ]; then
  step "removing $CACHE, the test cluster's programs and target/"
  rm -rf "$CACHE" "$ROOT/target"
  rm -rf "$("$CLUSTER" cache)"
fi
