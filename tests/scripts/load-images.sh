#!/usr/bin/env bash
# load-images.sh product|peers...: makes these images and brings them to the cluster: on the test cluster's nodes, or
# with IMAGE_REGISTRY to a registry, or with LOAD_IMAGES_CMD by a command that is given each file.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
for kind in "$@"; do
  images=$("$SCRIPTS/images.sh" "$kind")
  while read -r name file; do
    if [ -n "${LOAD_IMAGES_CMD:-}" ]; then
      step "loading $name: $LOAD_IMAGES_CMD $file"
      # The user's words, with arguments of their own.
      # shellcheck disable=SC2086
      $LOAD_IMAGES_CMD "$file" </dev/null
    elif [ -n "${IMAGE_REGISTRY:-}" ]; then
      apt_packages skopeo
      step "pushing $name"
      skopeo copy --quiet "oci-archive:$file" "docker://$name" </dev/null
    else
      step "loading $name on the nodes"
      "$CLUSTER" load-image "$file" </dev/null >/dev/null
    fi
  done <<<"$images"
done
