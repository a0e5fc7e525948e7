#!/usr/bin/env bash
# Checks the CUDA backend on a machine with a GPU, in at most 8 minutes, and prints one table.
set -euo pipefail

usage() {
  cat <<'END'
Usage: tools/gpu_check.sh --pack ARCHIVE                  on Debian or Ubuntu: packs the libraries that the build needs
       tools/gpu_check.sh [--libraries ARCHIVE] [OPTION...]   on the machine with the GPU: builds, checks, prints a table

The machine with the GPU needs CUDA with nvcc, cmake, a C++20 compiler and, for one row, a Python with PyTorch; of the packages
that tools/setup.sh installs it needs none if it is given what --pack made on a machine of the same architecture.

  --data DIR      Multi30k's text from tools/fetch_multi30k.sh, for 200 training steps (without it they are left out)
  --build DIR     where to build (default: build/gpu)
  --python PATH   a Python that has torch (default: python3)
  --help          this text

Rows: build, conformance of every routine, tensors with training and search, gradient checks, recordings of PyTorch,
compute-sanitizer's memcheck and racecheck where it is installed, 200 training steps against the CPU's, speed beside PyTorch's.
The exit status is 1 if a row failed.
END
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
say() { echo "gpu_check: $*" >&2; }
fail() {
  say "$@"
  exit 2
}

pack='' libraries='' data='' build=$here/build/gpu python=python3
while (($# > 0)); do
  case $1 in
    --help)
      usage
      exit 0
      ;;
    --pack | --libraries | --data | --build | --python)
      (($# > 1)) || fail "$1 needs a value (see --help)"
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    *) fail "unknown option $1 (see --help)" ;;
  esac
done

# Headers and shared libraries of the packages in tools/setup.sh, with what those need in turn, under the names they have here.
pack_libraries() {
  local libraries=() files
  eval "$(sed -n '/^libraries=(/,/)/p' "$here/tools/setup.sh")"
  dpkg-query -s "${libraries[@]}" >/dev/null || fail "run tools/setup.sh first"
  files=$(mktemp)
  dpkg-query -L "${libraries[@]}" | grep -E '^/usr/(include|share/cmake|lib)/' | grep -vE '\.(a|o)$|/pkgconfig/|/icu/' >"$files"
  {
    grep -E '\.so$' "$files" | xargs ldd 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
    grep -E '\.so$' "$files"
  } | sort -u | grep -vE '/(ld-linux.*|libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s)\.so' |
    while read -r library; do # the name that programs ask for, and what it is a link to
      find -L "$(dirname "$(realpath "$library")")" -maxdepth 1 -samefile "$library"
    done >"$files.libraries"
  sort -u "$files" "$files.libraries" | while read -r file; do [[ -d $file ]] || echo "${file#/}"; done >"$files.all"
  tar --create --file "$pack" --auto-compress --directory / --files-from "$files.all"
  rm "$files" "$files.libraries" "$files.all"
  say "$pack: $(du -h "$pack" | cut -f1)"
}
if [[ -n $pack ]]; then
  pack_libraries
  exit 0
fi

command -v nvcc >/dev/null || PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || fail "there is no nvcc here: install CUDA, or set PATH to it"
mkdir -p "$build"
cmake_arguments=(-S "$here" -B "$build" -DCMAKE_BUILD_TYPE=Release -DSEQGRAD_CUDA=ON -DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu)
if [[ -n $libraries ]]; then
  mkdir -p "$build/libraries"
  tar --extract --file "$libraries" --directory "$build/libraries"
  cmake_arguments+=("-DCMAKE_PREFIX_PATH=$build/libraries/usr")
  export LD_LIBRARY_PATH=$build/libraries/usr/lib/x86_64-linux-gnu:$build/libraries/lib/x86_64-linux-gnu:$build/libraries/usr/lib/x86_64-linux-gnu/openblas-openmp${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi

names=() verdicts=()
# row NAME SECONDS COMMAND...: runs it, its output in the build folder; its last line goes into the table. Not within 'if' or '||',
# where -e would not hold for the command.
row() {
  local name=$1 limit=$2 log=$build/$1.log start=$SECONDS work watch
  shift 2
  say "$name ..."
  set -m # a group of its own, which the watch can end as a whole
  (
    set -e
    "$@"
  ) >"$log" 2>&1 &
  work=$!
  (sleep "$limit" && kill -- -"$work") &>/dev/null &
  watch=$!
  set +m
  status=0
  wait "$work" || status=$?
  kill -- -"$watch" 2>/dev/null || true
  local verdict=passed
  ((status == 0)) || verdict="FAILED ($status, see $log)"
  names+=("$name")
  verdicts+=("$verdict, $((SECONDS - start)) s: $(tail -n 1 "$log" | cut -c 1-150)")
}
skip() {
  names+=("$1")
  verdicts+=("skipped: $2")
}

build_all() {
  cmake "${cmake_arguments[@]}"
  cmake --build "$build" --parallel "$(nproc)" --target seqgrad test_cuda test_device
}
seqgrad=$build/seqgrad

train_on() { # train_on DEVICE
  rm -rf "$build/run-$1"
  "$seqgrad" train --device "$1" --preset multi30k --data "$data" --attention sdp --max-steps 200 --validate-every 50 \
    --out "$build/run-$1"
}
# The losses at each validation, side by side; fails where they are more than 1 per cent apart.
train_both() {
  train_on cuda
  train_on cpu
  paste "$build/run-cpu/metrics.jsonl" "$build/run-cuda/metrics.jsonl" | awk -F'\t' '
    function loss(line) { match(line, /"train_perplexity": *[0-9.e+-]+/); line = substr(line, RSTART, RLENGTH); sub(/.*: */, "", line); return line }
    { a = loss($1); b = loss($2); d = (b - a) / a; if (d < 0) d = -d; if (d > worst) worst = d; curve = curve " " a "/" b; n++ }
    END { printf "train perplexity cpu/cuda:%s, at most %.2g apart\n", curve, worst; exit !(n >= 4 && worst < 0.01) }'
}
speeds() {
  local ours theirs
  ours=$("$seqgrad" bench train --device cuda --json --steps 30 | sed 's/.*"target_tokens_per_second": *\([0-9.]*\).*/\1/')
  if theirs=$("$python" "$here/tools/bench/torch_seq2seq.py" train-speed --device cuda --steps 30 | sed 's/.*"target_tokens_per_second": *\([0-9.]*\).*/\1/'); then
    awk -v a="$ours" -v b="$theirs" 'BEGIN { printf "target tokens/s: seqgrad %.0f, PyTorch %.0f, ratio %.2f\n", a, b, a / b }'
  else
    echo "target tokens/s: seqgrad $ours, PyTorch did not run"
  fi
}

row build 200 build_all
if ((status == 0)); then
  row conformance 40 "$build/tests/test_cuda"
  row device 20 "$build/tests/test_device"
  row gradients 30 "$seqgrad" check gradients --device cuda --fast
  row parity 15 "$seqgrad" check parity --device cuda "$here"/tests/fixtures/torch/*.safetensors
  if command -v compute-sanitizer >/dev/null; then
    some=(--source-file='*softmax*,*strided*,*search*')
    row memcheck 40 compute-sanitizer --tool memcheck --error-exitcode 1 "$build/tests/test_cuda" "${some[@]}"
    row racecheck 40 compute-sanitizer --tool racecheck --error-exitcode 1 "$build/tests/test_cuda" "${some[@]}"
  else
    skip memcheck "there is no compute-sanitizer"
    skip racecheck "there is no compute-sanitizer"
  fi
  if [[ -n $data ]]; then
    row training 60 train_both
  else
    skip training "no --data"
  fi
  row speed 35 speeds
fi

echo
for ((i = 0; i < ${#names[@]}; ++i)); do printf '%-12s %s\n' "${names[i]}" "${verdicts[i]}"; done
[[ ! "${verdicts[*]}" =~ FAILED ]]
