#!/usr/bin/env bash
# peers.sh KIND: installs programs that we did not write, at the versions pinned in tests/peers, and prints the folder.
#   npm, mcp-npm, a2a-npm, a2a-npm-old, oauth, conformance  the one that holds node_modules
#   python, mcp-python, a2a-old, models, tck, tools  a Python environment
#   mcp-old                            a Python environment, and in it a folder for each release of releases.txt
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
kind=${1:-}

# ready FOLDER: whether it was installed whole; what is left of an interrupted run goes.
ready() {
  [ ! -e "$1/done" ] || return 0
  rm -rf "$1"
  mkdir -p "$1"
  return 1
}
venv() {
  local folder=$1 requirements=$2

  /usr/bin/python3 -m venv "$folder"
  wheels "$folder" -r "$requirements"
}
# wheels FOLDER ARG...: what a registry hands out is what it handed out when it was pinned.
wheels() {
  local folder=$1
  shift
  "$folder/bin/pip" install --disable-pip-version-check --quiet --only-binary :all: --require-hashes "$@"
}
# The releases share what they need; each has a folder of its own for PYTHONPATH.
old_releases() {
  local folder=$1 peers=$2 release hash
  venv "$folder" "$peers/requirements.txt"
  while read -r release hash; do
    wheels "$folder" --no-deps --target "$folder/${release#*==}" -r <(echo "$release $hash")
  done <"$peers/releases.txt"
  "$folder/bin/python" -m compileall -q "$folder"
}
npm_packages() {
  local folder=$1 peers=$2
  cp "$peers"/package*.json "$folder/"
  npm ci --prefix "$folder" --no-audit --no-fund --ignore-scripts
}

once "peers-$kind"
peers=$ROOT/tests/peers/$kind
case $kind in
npm | mcp-npm | a2a-npm | a2a-npm-old | oauth | conformance)
  folder=$CACHE/peers/$kind-$(content_key "tests/peers/$kind/package-lock.json")
  if ! ready "$folder"; then
    logged "fetching the npm packages of tests/peers/$kind (half a minute)" npm_packages "$folder" "$peers"
    touch "$folder/done"
  fi
  ;;
mcp-old)
  folder=$CACHE/peers/$kind-$(content_key tests/peers/mcp-old/{requirements,releases}.txt)
  if ! ready "$folder"; then
    logged "fetching old releases of MCP's Python SDK (half a minute)" old_releases "$folder" "$peers"
    touch "$folder/done"
  fi
  ;;
python | mcp-python | a2a-old | models | tck | tools)
  requirements=$ROOT/tests/peers/$kind/requirements.txt
  folder=$CACHE/peers/$kind-$(content_key "tests/peers/$kind/requirements.txt")
  if ! ready "$folder"; then
    logged "fetching the Python packages of tests/peers/$kind (half a minute)" venv "$folder" "$requirements"
    touch "$folder/done"
  fi
  ;;
*) die "usage: peers.sh npm|mcp-npm|a2a-npm|a2a-npm-old|oauth|conformance|python|mcp-python|mcp-old|a2a-old|models|tck|tools" ;;
esac
echo "$folder"
