#!/usr/bin/env bash
# Installs the build into a temporary folder, and builds and runs the examples there as a user would, out of tree; one of them
# also with the Debian packages where there is dpkg.
# Usage: installed_package_test.sh BUILD SOURCE COMPILER
set -euo pipefail

build=$1 source=$2 compiler=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "installed_package_test: $*" >&2
  exit 1
}

cmake --install "$build" --prefix "$folder/first" >/dev/null
mv "$folder/first" "$folder/prefix" # nothing may depend on where it was installed
[[ "$("$folder/prefix/bin/seqgrad" --version)" == seqgrad\ * ]] || fail "the installed program does not run"

cp -r "$source/tools/examples" "$folder/examples"
# build_examples PREFIX BUILD [TARGET]
build_examples() {
  cmake -S "$folder/examples" -B "$2" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_PREFIX_PATH="$1" \
    >"$folder/configure.log" || fail "cannot configure: $(cat "$folder/configure.log")"
  cmake --build "$2" --target "${3:-all}" >"$folder/build.log" || fail "cannot build: $(cat "$folder/build.log")"
}
build_examples "$folder/prefix" "$folder/build"

# run EXAMPLE ARGUMENT...: its output is left in $folder/out
run() {
  "$folder/build/$1" "${@:2}" >"$folder/out" 2>&1 || fail "$1: $(cat "$folder/out")"
  cat "$folder/out"
}
# says PATTERN: a line of the output does
says() { grep -q -- "$1" "$folder/out" || fail "nothing says: $1"; }

run 1_tensor_and_tape
awk '/^d f \/ d w at \(2, 0\): .* by the tape, .* by differences$/ {off = $9 - $13; found = off * off < 1e-14 && $9 > 1}
  END {exit !found}' "$folder/out" || fail "the tape's gradient is not the difference quotient"
run 3_attention
[[ $(awk '$NF <= 1e-13' "$folder/out" | wc -l) == 4 ]] || fail "the attentions differ"
run 4_toy_translator
awk '/^epoch/ {p[n++] = $NF} END {exit !(n == 4 && p[3] < p[0])}' "$folder/out" || fail "the toy translator learns nothing"
says '^weight:  '
run 5_pytorch_weights "$source/tests/fixtures/torch/seq2seq_gru_bi_sdp.safetensors" "$folder/out.safetensors"
awk '/difference/ && $NF <= 1e-13 {found = 1} END {exit !found}' "$folder/out" || fail "another loss than PyTorch's"
says ' 22 tensors, bit for bit those of PyTorch$'

# expect STATUS ARGUMENT...: runs the example with the gradient checks; its output is left in $folder/out
expect() {
  local status=0 expected=$1
  shift
  "$folder/build/2_own_op" --threads 1 "$@" >"$folder/out" 2>&1 || status=$?
  [[ $status == "$expected" ]] || fail "2_own_op $* ended with $status, not $expected: $(cat "$folder/out")"
}

expect 0 --junit "$folder/junit.xml"
cat "$folder/out"
grep -q '^3 cases, 42 entries in .*; worst relative error ' "$folder/out" || fail "the table does not end with its summary"
[[ $(grep -c '<testcase classname="gradients" name="' "$folder/junit.xml") == 3 ]] || fail "JUnit lacks a case"
grep -q 'tests="3" failures="0"' "$folder/junit.xml" || fail "JUnit has the wrong counts"
expect 0 --dtype f32
expect 0 --fast
expect 0 --list
grep -q '^scale_rows  x (3, 4), s (3, 1); tolerance ' "$folder/out" || fail "--list lacks a case"
expect 0 --json --filter soft*
grep -q '"ok":true,.*"name":"softplus"' "$folder/out" || fail "the JSON lacks its case"
expect 1 --rtol 1e-30
grep -q '^2_own_op: 3 of 3 gradient checks failed$' "$folder/out" || fail "no complaint about what failed"
grep -q '^  likely cause: the tolerance is finer than differences resolve' "$folder/out" || fail "no likely cause"
expect 2 --filter nothing
expect 2 --no-such-option

command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null || exit 0
(cd "$folder" && cpack --config "$build/CPackConfig.cmake" -G DEB -B "$folder/packages") >"$folder/cpack.log" 2>&1 ||
  fail "cannot package: $(cat "$folder/cpack.log")"
for package in "$folder"/packages/{seqgrad,libseqgrad-dev}_*.deb; do
  dpkg-deb -x "$package" "$folder/root"
done
[[ "$("$folder/root/usr/bin/seqgrad" --version)" == seqgrad\ * ]] || fail "the packaged program does not run"
build_examples "$folder/root/usr" "$folder/build_with_packages" 2_own_op
"$folder/build_with_packages/2_own_op" --threads 1 --filter 'scale*' >"$folder/out" || fail "packaged: $(cat "$folder/out")"
