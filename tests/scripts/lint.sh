#!/usr/bin/env bash
# lint.sh: formatting, clippy without a warning, dependencies, shell scripts, charts. One line for each check.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
tools=$("$SCRIPTS/peers.sh" tools)
machete=$CACHE/tools/bin/cargo-machete
machete_version=0.9.2
if [ "$("$machete" --version 2>/dev/null)" != "$machete_version" ]; then
  logged "building cargo-machete $machete_version (1 to 2 minutes)" \
    cargo install --quiet --locked --root "$CACHE/tools" --target-dir "$CACHE/tools/target" "cargo-machete@$machete_version"
  rm -rf "$CACHE/tools/target"
fi
tests/cluster/build.sh tools
PATH=$("$CLUSTER" tools):$PATH

passed=0 failed=0
# check NAME CMD...
check() {
  local name=$1 output
  shift
  step "$name"
  output=$(mktemp)
  if "$@" >"$output" 2>&1; then
    passed=$((passed + 1))
    log "  ok"
  else
    failed=$((failed + 1))
    cat "$output" >&2
    log "  FAILED: $name"
  fi
  rm -f "$output"
}
scripts() { git ls-files -z '*.sh' .ci/run | xargs -0 shellcheck -x -P SCRIPTDIR; }
charts() { helm lint --strict --quiet charts/agentd charts/agentd-crds; }
# The one permission that the whole cluster must never grant.
no_secrets() {
  helm template release charts/agentd | python3 -c '
import sys
for text in sys.stdin.read().split("\n---\n"):
    if "\nkind: ClusterRole\n" in text and "secrets" in "".join(l for l in text.split("\n") if "resources:" in l):
        sys.exit("a ClusterRole names secrets:\n" + text)'
}

check "formatting: cargo fmt" cargo fmt --all --check
check "clippy, no warning (the first time 3 minutes)" cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
# Targets that say `test = false` are not among all of them.
check "clippy of what is run by its name" cargo clippy --quiet --workspace --test '*' --locked -- -D warnings
check "clippy of the build with traces and exec" cargo clippy --quiet -p agentd --all-targets --features otel,exec --locked -- -D warnings
check "dependencies: cargo deny" "$tools/bin/cargo-deny" --log-level error check bans licenses sources
check "unused dependencies: cargo machete" "$machete" --skip-target-dir .
check "shell scripts: shellcheck" scripts
check "charts: helm lint" charts
check "no Secret in a ClusterRole" no_secrets
log "lint result: $passed passed; $failed failed;"
[ "$failed" = 0 ]
