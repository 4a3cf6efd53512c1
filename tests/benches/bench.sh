#!/usr/bin/env bash
# bench.sh: prints one JSON line for each measure: name, value, unit, n. None of them is a test. What needs a cluster is
# measured on one that this script starts and ends.
set -euo pipefail
# shellcheck source=../scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
measure() { printf '{"name":"%s","value":%s,"unit":"%s","n":%s}\n' "$@"; }
# median: of the numbers on standard input.
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
now_ms() { date +%s%3N; }

"$SCRIPTS/prerequisites.sh"
static=$("$SCRIPTS/build-static.sh")
for name in agentd agentd-operator; do
  measure "binary_size.$name" "$(stat -c %s "$static/$name")" bytes 1
done
while read -r name file; do
  image=${name##*/}
  measure "image_size.${image%%:*}" "$(stat -c %s "$file")" bytes 1
done < <("$SCRIPTS/images.sh" product)

n=20
for ((i = 0; i < n; i++)); do
  start=$(date +%s%N)
  "$static/agentd" --version >/dev/null
  echo $((($(date +%s%N) - start) / 1000))
done | median | while read -r value; do measure process_start "$value" us "$n"; done

# The demo leaves an agent that has answered once, with a warm worker.
trap 'KUBE_TEST_STATE=$DEMO_STATE "$CLUSTER" down' EXIT
env -u KUBECONFIG "$ROOT/tests/demo/demo.sh" >/dev/null
export KUBE_TEST_STATE=$DEMO_STATE
eval "$("$CLUSTER" env)"
identity=$ROOT/.state/demo/identity
url=$(kubectl -n agentd-demo get agents.agentd.io demo -o jsonpath='{.status.url}')
id=$(kubectl -n agentd-demo get agents.agentd.io demo -o jsonpath='{.status.spiffeID}')
ask() {
  "$CLUSTER" exec --node 1 -- "$static/agentd" a2a send "$url" "$1" --server-id "$id" --identity "$identity" >/dev/null 2>&1
}

# resident PATTERN: what the node's processes of that command line hold, in KiB.
resident() {
  # shellcheck disable=SC2016  # for the shell on the node
  "$CLUSTER" enter node1 -- bash -c 'pgrep -f "$1" | sed "s|.*|/proc/&/status|" | xargs awk "/^VmRSS/ { s += \$2 } END { print s + 0 }"' - "$1"
}

# Nobody has asked this pod anything yet. Wait until it has connected its servers.
kubectl -n agentd-demo wait --for=condition=Ready --timeout=60s agents.agentd.io/demo >/dev/null
measure rss.agent_idle "$(resident '^/agentd run')" KiB 1
n=20
for ((i = 0; i < n; i++)); do
  start=$(now_ms)
  ask "What is $i plus 40?"
  echo $(($(now_ms) - start))
done | median | while read -r value; do measure turn_with_one_tool_call "$value" ms "$n"; done
measure rss.agent_after_turns "$(resident '^/agentd run')" KiB 1
measure rss.agent_worker_warm "$(resident '^/agentd worker|^/proc/self/exe worker')" KiB 1
measure rss.bridge "$(resident '^/agentd bridge')" KiB 1
measure rss.controllers "$(resident '^/agentd-operator controllers')" KiB 1
measure rss.issuer "$(resident '^/agentd-operator issuer')" KiB 2
