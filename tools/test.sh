#!/usr/bin/env bash
# Builds everything and runs the tests: installs what is missing first.
set -euo pipefail

if [[ "${1:-}" == --help ]]; then
  cat <<'HELP'
Usage: tools/test.sh [CTEST-OPTION...]

Installs missing build dependencies (Debian, Ubuntu), builds everything in build/release and runs 'ctest --preset release
CTEST-OPTION...'. SEQGRAD_CMAKE_ARGS holds further arguments for CMake, separated by spaces.

Examples: tools/test.sh
          tools/test.sh -R kernels
          SEQGRAD_CMAKE_ARGS=-DSEQGRAD_WERROR=ON tools/test.sh
HELP
  exit 0
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/setup.sh
read -r -a cmake_args <<<"${SEQGRAD_CMAKE_ARGS:-}"
cmake --preset release "${cmake_args[@]}"
cmake --build --preset release --parallel "$(nproc)"
exec ctest --preset release "$@"
