#!/usr/bin/env bash
# From a fresh clone to a trained translator: installs what is missing, builds the program and runs its demo.
set -euo pipefail

if [[ "${1:-}" == --help ]]; then
  cat <<'HELP'
Usage: tools/demo.sh [OPTION...]

Installs missing build dependencies (Debian, Ubuntu), builds build/release/seqgrad and runs 'seqgrad demo OPTION...'.
'build/release/seqgrad demo --help' lists the options.

Example: tools/demo.sh --out runs/demo
HELP
  exit 0
fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/tools/setup.sh"
(
  cd "$root"
  # Ninja configures again by itself when a CMakeLists.txt changes; the presets it does not watch.
  if [[ ! build/release/build.ninja -nt CMakePresets.json ]]; then
    cmake --preset release
  fi
  cmake --build --preset release --target seqgrad --parallel "$(nproc)"
) >&2
exec "$root/build/release/seqgrad" demo "$@"
