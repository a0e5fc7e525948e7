#!/usr/bin/env bash
# Tests tools/fetch_multi30k.sh against a made-up mirror in a folder; no network is used.
# Usage: fetch_multi30k_test.sh SCRIPT
set -euo pipefail

script=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cd "$work"

failures=0
check() {  # check WHAT COMMAND...
  if ! "${@:2}"; then
    echo "FAILED: $1" >&2
    failures=$((failures + 1))
  fi
}
status=0
run() {  # run ARGUMENTS...: status, and one line for each file fetched and the verdict in `log`
  status=0
  SEQGRAD_MULTI30K_SUMS=$work/sums PATH=${tools:-$PATH} "$BASH" "$script" "$@" > out 2> log || status=$?
}
status_is() { [[ $status == "$1" ]]; }
log_says() { grep -qF -- "$1" log; }
lines_in_log() { [[ $(wc -l < log) == "$1" ]]; }
same() { cmp -s "$1" "$2"; }
absent() { [[ ! -e $1 ]]; }

mkdir -p mirror/raw mirror/tok flat
seq 1 20000 | gzip -n > mirror/raw/train.de.gz
seq 1 500 > mirror/tok/val.lc.norm.tok.de
cp mirror/*/* flat
(cd flat && sha256sum -- * > ../sums)

# Once with whatever is installed, once without curl.
mkdir no_curl
for tool in bash cat cut grep mktemp mkdir mv rm sed sha256sum tail wc wget; do
  path=$(command -v "$tool") && ln -s "$path" "no_curl/$tool"
done
if [[ ! -e no_curl/wget ]]; then
  printf '#!/bin/sh\nexit 4\n' > no_curl/wget && chmod +x no_curl/wget
fi

for tools in "" "$work/no_curl"; do
  rm -rf data

  run --mirror "file://$work/mirror" data
  check "a mirror with folders works" status_is 0
  check "both files arrive" same data/train.de.gz flat/train.de.gz
  check "both files arrive" same data/val.lc.norm.tok.de flat/val.lc.norm.tok.de
  check "it says what it does" lines_in_log 3

  run --mirror "file://$work/nowhere" data
  check "nothing is fetched twice" status_is 0
  check "nothing is fetched twice" lines_in_log 1

  rm -rf data
  run "--mirror=file://$work/flat/" data
  check "a flat mirror works" status_is 0
  check "a flat mirror works" same data/train.de.gz flat/train.de.gz

  # The mirror's file has another beginning: only one who continues gets the right sum.
  rm -rf data other && mkdir data other
  head -c 1000 flat/train.de.gz > data/train.de.gz.part
  { head -c 1000 /dev/zero && tail -c +1001 flat/train.de.gz; } > other/train.de.gz
  cp flat/val.lc.norm.tok.de other
  run --mirror "file://$work/other" data
  check "a partial file continues" status_is 0
  check "a partial file continues" same data/train.de.gz flat/train.de.gz
  check "no partial file is left" absent data/train.de.gz.part

  head -c 1000 flat/train.de.gz > data/train.de.gz
  run --mirror "file://$work/other" data
  check "an incomplete file of the right name continues" status_is 0
  check "an incomplete file of the right name continues" same data/train.de.gz flat/train.de.gz

  echo rubbish > data/train.de.gz.part
  rm data/train.de.gz
  run --mirror "file://$work/flat" data
  check "a partial file that is something else is fetched anew" status_is 0
  check "a partial file that is something else is fetched anew" same data/train.de.gz flat/train.de.gz

  { cat flat/train.de.gz && echo more; } > data/train.de.gz
  run --mirror "file://$work/flat" data
  check "a file that is too long is fetched anew" status_is 0
  check "a file that is too long is fetched anew" same data/train.de.gz flat/train.de.gz

  rm data/train.de.gz
  run --mirror "file://$work/other" data
  check "a wrong checksum fails" status_is 1
  check "a wrong checksum fails" log_says "fetch_multi30k: train.de.gz from file://$work/other has the wrong SHA-256 sum"
  check "a wrong file does not pass for a right one" absent data/train.de.gz
  check "a wrong file is kept aside" same data/train.de.gz.wrong other/train.de.gz

  run --mirror "file://$work/nowhere" data
  check "a missing file fails" status_is 1
  check "a missing file fails" log_says "fetch_multi30k: cannot fetch train.de.gz from file://$work/nowhere: "
done
tools=

run --help
check "help is help" status_is 0
check "help is help" grep -q '^Usage: fetch_multi30k.sh' out
run --wrong
check "unknown options are refused" status_is 2
check "unknown options are refused" log_says "fetch_multi30k: unknown option --wrong (see --help)"
run --mirror
check "an option without its value is refused" status_is 2
run a b
check "two folders are refused" status_is 2
run --mirror "$work/flat" data
check "a path is not a URL" status_is 2
touch file
run --mirror "file://$work/flat" file
check "a file is not a folder" status_is 1
check "a file is not a folder" log_says "fetch_multi30k: cannot make the folder file"

((failures == 0)) && echo "fetch_multi30k: all checks hold"
