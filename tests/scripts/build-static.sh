#!/usr/bin/env bash
# Builds `agentd` and `agentd-operator` as static release binaries and prints the folder they are in.
# Keyed by the content of what goes in: an unchanged tree builds nothing.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
target=x86_64-unknown-linux-gnu
# crt-static: glibc goes in, so that the binary runs in an image of its own. --target keeps the flags away from build
# scripts and procedural macros, which can't be static. pack-relative-relocs: an address that is fixed up at the start
# takes a bit and not 24 bytes, which is 1.2 MB of a static binary. agentd itself is linked at fixed addresses:
# runtime/build.rs says what that saves and what it gives up.
flags="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs"

mapfile -d '' -t sources < <(cd "$ROOT" && find Cargo.toml Cargo.lock rust-toolchain.toml crds operator runtime \
  -type f \( -name '*.rs' -o -name '*.toml' -o -name Cargo.lock -o -name '*.sql' \) -not -path '*/tests/*' -print0 | LC_ALL=C sort -z)
key=$(content_key "${sources[@]}" tests/scripts/build-static.sh)
folder=$CACHE/static/$key
once static
if [ ! -e "$folder/done" ]; then
  build() {
    (cd "$ROOT" && RUSTFLAGS=$flags cargo build --release --locked --target "$target" \
      -p agentd -p agentd-operator)
  }
  logged "building the static release binaries: about 10 minutes on 2 cores the first time, 3 to 5 afterwards" build
  mkdir -p "$folder"
  for name in agentd agentd-operator; do
    cp "$CARGO_TARGET_DIR/$target/release/$name" "$folder/$name"
  done
  touch "$folder/done"
  # The last five stay.
  find "$CACHE/static" -mindepth 1 -maxdepth 1 -type d -printf '%T@ %p\n' | sort -rn | tail -n +6 | cut -d' ' -f2- | xargs -r rm -rf
fi
echo "$folder"
