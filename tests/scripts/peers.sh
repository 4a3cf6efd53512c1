#!/usr/bin/env bash
# peers.sh npm|python|tools: installs programs that we did not write, at the versions pinned in tests/peers, and
# prints the folder: the one that holds node_modules, or the one of the Python environment.
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
  "$folder/bin/pip" install --disable-pip-version-check --quiet --only-binary :all: -r "$requirements"
}

once "peers-$kind"
case $kind in
npm)
  folder=$CACHE/peers/npm-$(content_key tests/peers/npm/package-lock.json)
  if ! ready "$folder"; then
    cp "$ROOT"/tests/peers/npm/package*.json "$folder/"
    logged "fetching the npm peers: MCP's reference server, the scripted model server, node (half a minute)" \
      npm ci --prefix "$folder" --no-audit --no-fund --ignore-scripts
    touch "$folder/done"
  fi
  ;;
python | tools)
  requirements=$ROOT/tests/peers/$kind/requirements.txt
  folder=$CACHE/peers/$kind-$(content_key "tests/peers/$kind/requirements.txt")
  if ! ready "$folder"; then
    logged "fetching the Python packages of tests/peers/$kind (half a minute)" venv "$folder" "$requirements"
    touch "$folder/done"
  fi
  ;;
*) die "usage: peers.sh npm|python|tools" ;;
esac
echo "$folder"
