#!/usr/bin/env bash
# bench.sh [PART...]: prints one JSON line for each measure: name, value, unit, n, and limit where the project promises one.
# Fails where a measure is above its limit. Parts, all unless some are named:
#   mcp      the MCP client on loopback            agent    an agent's processes on loopback; agent:PART for one of
#                                                           its parts: one_shot, rounds, idle, lists, subagents, messages
#   sizes    binaries and images                   cluster  an agent in a cluster that this script starts and ends
set -euo pipefail
# shellcheck source=../scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"
measure() { printf '{"name":"%s","value":%s,"unit":"%s","n":%s}\n' "$@"; }
# judge NAME VALUE UNIT N LIMIT: the same, with what it may be at most.
judge() {
  printf '{"name":"%s","value":%s,"unit":"%s","n":%s,"limit":%s}\n' "$@"
  [ "$2" -le "$5" ] || above=1
}
# median NAME UNIT: of the numbers on standard input, with how many there were.
median() { sort -n | awk -v name="$1" -v unit="$2" '{ v[NR] = $1 } END { if (NR) printf "{\"name\":\"%s\",\"value\":%s,\"unit\":\"%s\",\"n\":%d}\n", name, v[int((NR + 1) / 2)], unit, NR }'; }
now_ms() { date +%s%3N; }

parts=("$@")
[ $# -gt 0 ] || parts=(mcp agent sizes cluster)
# Of the agent's bench: all of its parts, or some.
agent_parts=()
wanted() { [[ " ${parts[*]} " = *" $1 "* ]]; }
for part in "${parts[@]}"; do
  case $part in
  mcp | agent | sizes | cluster) ;;
  agent:one_shot | agent:rounds | agent:idle | agent:lists | agent:subagents | agent:messages) agent_parts+=("${part#agent:}") ;;
  *) die "no part $part: mcp, agent, agent:PART, sizes, cluster" ;;
  esac
done
# bench PROFILE PACKAGE NAME [PART...]: what is above its limit is said and does not stop the others.
above=0
bench() {
  local cargo=(cargo bench --quiet --locked --manifest-path "$ROOT/Cargo.toml" --profile "$1" -p "$2" --bench "$3")
  logged "building the bench $3 of $2 (the first time 4 to 6 minutes)" "${cargo[@]}" --no-run
  shift 3
  "${cargo[@]}" -- "$@" || above=1
}

"$SCRIPTS/prerequisites.sh"
! wanted mcp || bench release agentd-interop mcp
if wanted agent || [ ${#agent_parts[@]} -gt 0 ]; then
  # What is measured is what is shipped; model, server and caller are of any build.
  AGENTD=$("$SCRIPTS/build-static.sh")/agentd
  export AGENTD
  # All parts when all were asked for.
  ! wanted agent || agent_parts=()
  bench dev agentd agent "${agent_parts[@]}"
fi
judged() { [ "$above" = 0 ] || die "a measure is above its limit, see above"; }
wanted sizes || wanted cluster || {
  judged
  exit 0
}
static=$("$SCRIPTS/build-static.sh")
sizes() {
  local name file image i start
  judge binary_size.agentd "$(stat -c %s "$static/agentd")" bytes 1 25000000
  measure binary_size.agentd-operator "$(stat -c %s "$static/agentd-operator")" bytes 1
  while read -r name file; do
    image=${name##*/}
    measure "image_size.${image%%:*}" "$(stat -c %s "$file")" bytes 1
  done < <("$SCRIPTS/images.sh" product)
  for ((i = 0; i < 20; i++)); do
    start=$(date +%s%N)
    "$static/agentd" --version >/dev/null
    echo $((($(date +%s%N) - start) / 1000))
  done | median process_start us
}
! wanted sizes || sizes
judged
wanted cluster || exit 0

# The demo's cluster; one that was up already stays up.
export KUBE_TEST_STATE=$DEMO_STATE
"$CLUSTER" status >/dev/null 2>&1 || trap '"$CLUSTER" down' EXIT
env -u KUBECONFIG "$ROOT/tests/demo/demo.sh" >/dev/null
eval "$("$CLUSTER" env)"
kubectl() { command kubectl -n agentd-demo "$@"; }
status() { kubectl get agents.agentd.io demo -o "jsonpath={.status.$1}"; }
identity=$ROOT/.state/demo/identity
url=$(status url)
id=$(status spiffeID)

# ask NUMBER [ARG...]: one question whose answer only the tool gives; prints the conversation's id.
ask() {
  local number=$1 answer
  shift
  answer=$("$CLUSTER" exec --node 1 -- "$static/agentd" a2a send "$url" "What is $number plus 40?" --server-id "$id" \
    --identity "$identity" --output json "$@" 2>/dev/null)
  [[ $answer = *"is $((number + 40))"* ]] || die "a wrong answer: $answer"
  python3 -c 'import json, sys; print(json.load(sys.stdin)["contextId"])' <<<"$answer"
}
# memory KEY PATTERN: what each process of that command line on the node holds, in KiB, a line for each. KEY is Rss; or
# Anonymous, what is not a page of the binary; or Pss, which counts a page that several share in parts.
memory() {
  # shellcheck disable=SC2016  # for the shell on the node
  "$CLUSTER" enter node1 -- bash -c 'pgrep -f "$2" | while read -r pid; do awk -v key="$1:" "\$1 == key { print \$2 }" "/proc/$pid/smaps_rollup"; done' - "$1" "$2"
}

# From the death of an agent's pod, without a drain, to a new one that the status calls Ready: noticed, scheduled,
# started, identity fetched, listening, reported.
uid() { kubectl get pods -l agentd.io/agent=demo --field-selector=status.phase=Running -o 'jsonpath={.items[0].metadata.uid}'; }
for ((i = 0; i < 5; i++)); do
  old=$(uid)
  start=$(now_ms)
  kubectl delete pod -l agentd.io/agent=demo --grace-period=0 --force >/dev/null 2>&1
  until [ "$(status reported.podUID)" != "$old" ] && kubectl wait --for=condition=Ready --timeout=60s agents.agentd.io/demo >/dev/null; do sleep 0.05; done
  echo $(($(now_ms) - start))
done | median agent_pod_killed_to_ready ms

# Nobody has asked this pod anything yet.
memory Rss '^/agentd run' | median rss.agent_idle KiB
memory Anonymous '^/agentd run' | median own.agent_idle KiB
memory Rss '^/agentd bridge' | median rss.bridge KiB
memory Anonymous '^/agentd bridge' | median own.bridge KiB
memory Rss '^/agentd-operator controllers' | median rss.controllers KiB
memory Rss '^/agentd-operator issuer' | median rss.issuer KiB

# called: how many tool calls the agent's log tells of, so that no turn counts that did without.
called() { kubectl logs deployment/demo-agent --tail=-1 | grep -c '"event":"tool.result"' || true; }

# The client's start and its handshake are in both. Cold: a new conversation, so a new worker with handshakes of its own.
before=$(called)
for ((i = 0; i < 10; i++)); do
  start=$(now_ms)
  ask "$i" >/dev/null
  echo $(($(now_ms) - start))
done | median turn_with_tool_call.cold ms
context=$(ask 100)
for ((i = 101; i < 121; i++)); do
  start=$(now_ms)
  ask "$i" --context "$context" >/dev/null
  echo $(($(now_ms) - start))
done | median turn_with_tool_call.warm ms
[ $(($(called) - before)) = 31 ] || die "31 questions, but $(($(called) - before)) tool calls in the agent's log"
memory Rss '^/agentd run' | median rss.agent_after_turns KiB
memory Pss 'agentd worker$|/exe worker$' | median pss.worker_warm KiB
