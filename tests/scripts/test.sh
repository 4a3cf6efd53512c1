#!/usr/bin/env bash
# test.sh STEP...: runs these steps one after the other, all of them also when one fails, and ends with one line
# `N passed, N failed`. Steps: lint, generate, unit, interop, conformance, api, e2e; soak-unit, soak-interop and soak-api,
# which are three of these with the long forms of their tests, and come after the others.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
output=$(mktemp -d)
passed=0 failed=0 broken=()

# run NAME CMD...: CMD with its output shown and counted. A step that failed without a failed test counts as one.
run() {
  local name=$1 file=$output/$1 ok=yes these_passed these_failed start=$SECONDS
  shift
  step "== $name"
  "$@" 2>&1 | tee "$file" || ok=
  these_passed=$(sum_of passed "$file")
  these_failed=$(sum_of failed "$file")
  [ -n "$ok" ] || [ "$these_failed" -gt 0 ] || these_failed=1
  passed=$((passed + these_passed)) failed=$((failed + these_failed))
  [ "$these_failed" = 0 ] || broken+=("$name")
  step "== $name: $these_passed passed, $these_failed failed, $((SECONDS - start)) s"
}
# sum_of WORD FILE: over all lines `… result: … N WORD;`.
sum_of() { grep -a ' result: ' "$2" | grep -o "[0-9]* $1;" | awk '{ sum += $1 } END { print sum + 0 }'; }

# with_cluster STATE NODES CMD...: CMD with a cluster of its own.
with_cluster() {
  local state=$1 nodes=$2 code=0
  shift 2
  export KUBE_TEST_STATE=$state
  step "starting a cluster with $nodes nodes"
  # Errors are handled here by hand: bash ignores `set -e` in what is run as a condition.
  "$CLUSTER" down && "$CLUSTER" up --nodes "$nodes" || return 1
  eval "$("$CLUSTER" env)"
  "$@" || code=$?
  if [ "$code" != 0 ] && [ -n "${KEEP:-}" ]; then
    step "the cluster of $state is kept; make clean ends it"
  else
    "$CLUSTER" down
  fi
  return "$code"
}
generated() {
  "$SCRIPTS/generate.sh" --check && echo "generate result: 1 passed; 0 failed;"
}
# fetched KIND...: these peers, before the tests that need them, so that none of those waits for a download.
fetched() {
  local kind
  for kind in "$@"; do "$SCRIPTS/peers.sh" "$kind" >/dev/null || return 1; done
}
unit() {
  local code=0
  fetched python npm mcp-python a2a-npm a2a-old a2a-npm-old || return 1
  # Everywhere the whole workspace, though only some of it is run: a package built by itself has other features, and
  # with them most of what it depends on is compiled once more.
  cargo test --locked --workspace --no-fail-fast || code=1
  # What a build with traces adds.
  cargo test --locked --workspace --features agentd/otel --test agentd -- otel:: || code=1
  # What a build with exec adds: its gates.
  cargo test --locked -p agentd-config --features exec --lib || code=1
  return "$code"
}
interop() {
  fetched npm mcp-npm oauth mcp-python mcp-old models || return 1
  cargo test --locked --workspace --no-fail-fast --test faults --test interop --test memory --test models --test rows
}
api_suite() {
  local code=0
  # Beside the two suites the two tests of other crates that judge against a real API server and are ignored elsewhere.
  cargo test --locked --workspace --no-fail-fast --test api_server --test render -- --ignored || code=1
  cargo test --locked --workspace --no-fail-fast --test 'operator_*' --test issuer || code=1
  return "$code"
}
e2e_suite() {
  # A release and a namespace that nobody expects.
  export TEST_RELEASE=plum TEST_NAMESPACE=agents-infra
  "$SCRIPTS/load-images.sh" product peers && "$SCRIPTS/install.sh" "$TEST_RELEASE" "$TEST_NAMESPACE" || return 1
  local code=0
  fetched npm oauth mcp-python a2a-npm || return 1
  PYTHON=$("$SCRIPTS/peers.sh" python)/bin/python
  AGENTD_BIN=$("$SCRIPTS/build-static.sh")/agentd
  export TEST_PYTHON=$PYTHON TEST_AGENTD=$AGENTD_BIN
  cargo test --locked --workspace --no-fail-fast --test 'e2e_*' || code=1
  # Last, since it takes everything away.
  cargo test --locked --workspace --test uninstall || code=1
  return "$code"
}
# Only where both have run: the tests named by rows are in both.
rows() { tests/scripts/rows.py tests/interop/rows.txt "$output/unit" "$output/interop"; }
# For the steps from here on: SOAK=1 is as long as each test says, another number so many seconds.
export_soak() { export SOAK=${SOAK:-1} PROPTEST_CASES=${PROPTEST_CASES:-20000}; }

"$SCRIPTS/prerequisites.sh"
# Kubernetes before Rust, not side by side: both take every core.
tests/cluster/build.sh
# What runs agentd must not inherit settings for it.
while read -r name; do unset "$name"; done < <(compgen -e AGENTD_ || true)
for each in "$@"; do
  case $each in
  lint) run lint "$SCRIPTS/lint.sh" ;;
  generate) run generate generated ;;
  unit) run unit unit ;;
  interop)
    run interop interop
    [ ! -e "$output/unit" ] || run rows rows
    ;;
  conformance) run conformance "$SCRIPTS/conformance.sh" ;;
  api) run api with_cluster "$API_STATE" 0 api_suite ;;
  e2e) run e2e with_cluster "$E2E_STATE" 1 e2e_suite ;;
  soak-unit)
    export_soak
    run soak-unit unit
    ;;
  soak-interop)
    export_soak
    run soak-interop interop
    ;;
  soak-api)
    export_soak
    run soak-api with_cluster "$API_STATE" 0 api_suite
    ;;
  *) die "unknown step $each" ;;
  esac
done
rm -rf "$output"
[ ${#broken[@]} = 0 ] || log "failed: ${broken[*]}"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
