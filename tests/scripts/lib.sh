# shellcheck shell=bash
# Places and helpers that the other scripts share. Sourced, never run.
# shellcheck disable=SC2034  # the variables are used by the sourcing scripts

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SCRIPTS=$ROOT/tests/scripts
CLUSTER=$ROOT/tests/cluster/cluster.sh
# What is built or fetched once per machine; every clone shares it. Keyed by content.
CACHE=$(realpath -m "${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/agentd")
# Compiled dependencies are shared by all clones too, unless the caller has a folder of their own.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$CACHE/target}
# The running test clusters; each kind has its own, so that a demo and a test do not meet.
DEMO_STATE=/run/agentd-demo
E2E_STATE=/run/agentd-e2e
API_STATE=/run/agentd-api

log() { printf '%s\n' "$*" >&2; }
step() { log "[$(date +%T)] $*"; }
die() {
  log "error: $*"
  exit 1
}

# content_key FILE...: one short digest over names and content, independent of times and folders.
content_key() { (cd "$ROOT" && LC_ALL=C sha256sum -- "$@") | sha256sum | cut -c1-12; }

# once NAME: holds a lock of that name until the script ends, so that two runs do not build the same thing.
once() {
  mkdir -p "$CACHE"
  exec {lock}>"$CACHE/$1.lock"
  flock "$lock"
}

# apt_packages NAME...: installs the Debian packages that are missing.
apt_packages() {
  local missing
  mapfile -t missing < <(comm -23 <(printf '%s\n' "$@" | sort -u) \
    <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | sed -n 's/ installed$//p' | sort -u))
  [ ${#missing[@]} -gt 0 ] || return 0
  step "installing the Debian packages ${missing[*]}"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "${missing[@]}" >&2
}

# logged TEXT CMD...: runs CMD quietly, with a line each half minute; its output is shown when it fails.
logged() {
  local text=$1 output start=$SECONDS pid
  shift
  output=$(mktemp)
  step "$text"
  "$@" >"$output" 2>&1 &
  pid=$!
  while ! timeout 30 tail --pid="$pid" -f /dev/null; do
    step "  still at it after $((SECONDS - start)) s: $(tail -n 1 "$output" | cut -c1-100)"
  done
  if ! wait "$pid"; then
    tail -n 60 "$output" >&2
    rm -f "$output"
    die "failed: $text"
  fi
  rm -f "$output"
}
