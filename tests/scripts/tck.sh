#!/usr/bin/env bash
# tck.sh CHECKOUT: the official A2A TCK (https://github.com/a2aproject/a2a-tck, branch 1.0-dev, which nobody but the
# caller fetches) against agentd's listener on both bindings. Ends with one line `N passed, N failed`.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
checkout=${1:-}
[ -f "$checkout/run_tck.py" ] ||
  die "give the TCK: git clone -b 1.0-dev https://github.com/a2aproject/a2a-tck, then make tck A2A_TCK=<checkout>"
"$SCRIPTS/prerequisites.sh"

python=$("$SCRIPTS/peers.sh" tck)/bin/python
logged "building the agent that is judged" cargo build --locked --workspace --bin tck-agent
# It writes its reports where it stands.
folder=$(mktemp -d)
cp -r "$checkout" "$folder/tck"
exec {answer}< <(exec "$CARGO_TARGET_DIR/debug/tck-agent")
agent=$!
trap 'kill "$agent" 2>/dev/null || true; rm -rf "$folder"' EXIT
read -r -t 20 -u "$answer" url || die "the agent did not start"
step "the TCK against $url: a minute and a half"
"$python" tests/tck/gate.py --tck "$folder/tck" --url "$url"
