#!/usr/bin/env bash
# Checks what the machine must bring, names each missing thing with how to get it, and installs the
# Debian packages that the other scripts use.
set -euo pipefail
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

absent=0
miss() {
  log "missing: $1"
  log "     get it: $2"
  absent=$((absent + 1))
}
# at_least WANTED HAVE: whether version HAVE is WANTED or newer.
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

[ "$(uname -m)" = x86_64 ] || miss "an x86_64 machine (this one is $(uname -m))" "use another machine; other kinds are not there yet"
debian=$(cut -d. -f1 /etc/debian_version 2>/dev/null || true)
[ "$debian" = 12 ] || miss "Debian 12 (this is ${debian:-not Debian})" "use a Debian 12 machine or virtual machine"
[ "$(id -u)" = 0 ] || miss "root: the test cluster makes namespaces and mounts" "run the command with sudo -E, or as root"

rust=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$ROOT/rust-toolchain.toml")
if ! have=$(cd "$ROOT" && cargo --version 2>/dev/null | cut -d' ' -f2); then
  miss "Rust $rust" "install rustup, see https://rustup.rs, then: rustup toolchain install $rust"
elif ! at_least "$rust" "$have"; then
  miss "Rust $rust or newer (cargo says $have)" "rustup toolchain install $rust"
fi
if ! have=$(go env GOVERSION 2>/dev/null); then
  miss "Go 1.25 or newer" "see https://go.dev/dl, unpack it to /usr/local/go and put /usr/local/go/bin on the PATH"
elif ! at_least 1.25 "${have#go}"; then
  miss "Go 1.25 or newer (go says $have)" "see https://go.dev/dl"
fi
command -v npm >/dev/null || miss "npm" "apt-get install npm"
[ "$absent" = 0 ] || die "$absent of the things that this needs are missing, see above"

apt_packages gcc libc6-dev openssl python3 python3-venv curl git shellcheck
