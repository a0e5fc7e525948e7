#!/usr/bin/env bash
# Installs what seqgrad's build needs on Debian and Ubuntu, if it is missing. Silent and quick when nothing is.
set -euo pipefail

if [[ "${1:-}" == --help ]]; then
  cat <<'HELP'
Usage: tools/setup.sh [PACKAGE...]

Installs with apt-get those of seqgrad's build dependencies that are missing, and any PACKAGE named besides. Needs root or
sudo only if something is missing. On other systems it lists what the build needs and leaves the installing to you.

Example: tools/setup.sh ccache
HELP
  exit 0
fi

say() { echo "setup: $*" >&2; }
fail() {
  say "$@"
  exit 1
}

libraries=(libopenblas-openmp-dev libfmt-dev doctest-dev libcli11-dev nlohmann-json3-dev zlib1g-dev libsleef-dev libtomlplusplus-dev libicu-dev
  libsentencepiece-dev libxxhash-dev libboost-context-dev)
packages=("${libraries[@]}" "$@")
# A program may come from elsewhere than a package: it only has to be there.
command -v cmake >/dev/null || packages+=(cmake)
command -v ninja >/dev/null || packages+=(ninja-build)
[[ -n "${CXX:-}" ]] || command -v g++ >/dev/null || packages+=(g++)

check_cmake() {
  local version
  version=$(cmake --version 2>/dev/null | sed -n '1s/.*version \([0-9.]*\).*/\1/p') || version=
  [[ "$(printf '%s\n' 3.25 "${version:-0}" | sort -V | head -n 1)" == 3.25 ]] ||
    fail "CMake ${version:-(none)} is too old: seqgrad needs 3.25 or later, e.g. from https://apt.kitware.com or 'pip install cmake'"
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  say "not Debian or Ubuntu; the build needs (names as in Debian): cmake (3.25 or later) ninja-build g++ ${libraries[*]} $*"
  command -v cmake >/dev/null || exit 1
  check_cmake
  exit 0
fi

# shellcheck disable=SC2016  # the ${...} are dpkg-query's
installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
  [[ $'\n'"$installed"$'\n' == *$'\n'"$package installed"$'\n'* ]] || missing+=("$package")
done

if ((${#missing[@]} > 0)); then
  command="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      fail "neither root nor sudo; as root run: $command"
    elif sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    elif [[ -t 0 ]]; then
      as_root=(sudo)
    else
      fail "sudo wants a password; as root run: $command"
    fi
  fi
  # apt-get's own chatter goes to stderr, so that the callers' stdout holds their results only.
  apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" >&2; }
  # A fresh machine may know no packages yet, and an old list may name versions that are gone: both need an update first.
  update() {
    say "updating the list of packages"
    apt -q update || fail "apt-get update failed; install by hand: ${missing[*]}"
  }
  known=yes
  for package in "${missing[@]}"; do
    [[ -n "$(apt-cache show "$package" 2>/dev/null)" ]] || known=no
  done
  [[ $known == yes ]] || update
  say "installing ${missing[*]}"
  if ! apt -q install -y --no-install-recommends "${missing[@]}"; then
    [[ $known == yes ]] || fail "could not install: ${missing[*]}"
    update
    apt -q install -y --no-install-recommends "${missing[@]}" || fail "could not install: ${missing[*]}"
  fi
fi
check_cmake
