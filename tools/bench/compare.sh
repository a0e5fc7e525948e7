#!/usr/bin/env bash
# Runs seqgrad's benchmarks and the same work in PyTorch (torch_seq2seq.py) in turn, and prints both with their ratios.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

usage() {
  cat <<END
Usage: tools/bench/compare.sh [JOB...] [OPTION...]

Runs build/release/seqgrad and PyTorch in turn on the same text, batches and number of threads, and prints the median of each,
their ratio and how far the runs lay apart. Machines are shared, so use an idle one, and compare what ran side by side.

Jobs (default: all that the options allow)
  train     training steps of the reference model, sdp and bahdanau attention
  small     training steps of a small model: embedding 128, hidden 128, batch 32
  decode    greedy translation, 64 sentences at a time
  beam      translation with 5 hypotheses, 64 sentences at a time
  latency   greedy translation, one sentence at a time
  tape      operations on single numbers, forward and backward

PyTorch runs as it comes (f32), with torch.set_float32_matmul_precision("medium") (the same arithmetic from another library,
where the CPU has no faster bf16: the table says so), and with bf16.

  --data DIR      Multi30k's text from tools/fetch_multi30k.sh (default: made-up text of its shape, for train and small)
  --model RUN     folder that 'seqgrad train' wrote, for decode, beam and latency
  --source FILE   what to translate (default: test_2016_flickr.lc.norm.tok.de in DIR)
  --runs N        how often each program runs (default: 3)
  --steps N       training steps of each run (default: 30; five times as many for small)
  --threads N     threads of both programs (default: 2)
  --json FILE     write all results there as well
  --python PATH   a Python that has torch and numpy (default: \$SEQGRAD_TORCH_PYTHON, else build/torch-venv, which is made with
                  pip and takes some gigabytes; PIP_INDEX_URL=https://download.pytorch.org/whl/cpu spares most of them)
  --help          this text

Example: tools/bench/compare.sh train decode --data data/multi30k --model runs/sdp
END
}

say() { echo "compare: $*" >&2; }
fail() { # fail STATUS MESSAGE...
  say "${@:2}"
  exit "$1"
}

jobs=() data='' model='' text='' runs=3 steps=30 threads=2 json='' python=${SEQGRAD_TORCH_PYTHON:-}
while (($# > 0)); do
  case $1 in
    --help)
      usage
      exit 0
      ;;
    --data | --model | --source | --runs | --steps | --threads | --json | --python)
      (($# > 1)) || fail 2 "$1 needs a value (see --help)"
      case $1 in
        --data) data=$2 ;;
        --model) model=$2 ;;
        --source) text=$2 ;;
        --runs) runs=$2 ;;
        --steps) steps=$2 ;;
        --threads) threads=$2 ;;
        --json) json=$2 ;;
        --python) python=$2 ;;
      esac
      shift 2
      ;;
    all | train | small | decode | beam | latency | tape)
      jobs+=("$1")
      shift
      ;;
    *) fail 2 "unknown job or option $1 (see --help)" ;;
  esac
done
for number in "$runs" "$steps" "$threads"; do
  [[ $number =~ ^[1-9][0-9]*$ ]] || fail 2 "--runs, --steps and --threads take a positive number, not '$number'"
done
[[ -z $data || -f $data/train.lc.norm.tok.de ]] || fail 2 "$data has no train.lc.norm.tok.de: tools/fetch_multi30k.sh fetches it"
[[ -z $model || -f $model/model.safetensors ]] || fail 2 "$model has no model.safetensors: --model is a folder that 'seqgrad train' wrote"
text=${text:-${data:+$data/test_2016_flickr.lc.norm.tok.de}}
[[ -z $text || -f $text ]] || fail 2 "cannot read $text"

named=${#jobs[@]}
if ((named == 0)) || [[ " ${jobs[*]} " == *" all "* ]]; then
  named=0
  jobs=(train small decode beam latency tape)
fi
kept=()
for job in "${jobs[@]}"; do
  if [[ $job =~ ^(decode|beam|latency)$ && (-z $model || -z $text) ]]; then
    ((named == 0)) || fail 2 "$job needs --model RUN, and --source FILE or --data DIR"
    say "no $job without --model RUN, and --source FILE or --data DIR"
  else
    kept+=("$job")
  fi
done
jobs=("${kept[@]}")

seqgrad=${SEQGRAD_PROGRAM:-$root/build/release/seqgrad}
[[ -x $seqgrad ]] || fail 2 "no $seqgrad: build it first (tools/test.sh)"

if [[ -z $python ]]; then
  python=$root/build/torch-venv/bin/python
  if [[ ! -x $python ]] || ! "$python" -c 'import torch, numpy' 2>/dev/null; then
    say "installing torch and numpy in build/torch-venv"
    python3 -m venv "$root/build/torch-venv" || fail 1 "cannot make build/torch-venv: install python3-venv, or give --python PATH"
    "$python" -m pip install --quiet torch numpy >&2 || fail 1 "pip could not install torch and numpy: give --python PATH"
  fi
fi
"$python" -c 'import torch, numpy' 2>/dev/null || fail 2 "$python has no torch and numpy: leave --python out to have them installed"

folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT

# ---- what runs: measurements, each a name and a command; comparisons, each of two measurements ----

names=()
declare -A command=() # words separated by blanks and quoted for eval
measure() {           # measure NAME COMMAND...
  [[ -z ${command[$1]:-} ]] || return 0
  names+=("$1")
  command[$1]="${*:2}"
}
# compare JOB CASE OURS PYTORCH...: measurements of one piece of work, ours against each of PyTorch's
compare() { echo "$*" >>"$folder/comparisons"; }

quoted() { printf '%q' "$1"; }
torch="$(quoted "$python") $(quoted "$here/torch_seq2seq.py")"
ours="$(quoted "$seqgrad") bench"
: >"$folder/comparisons"

# can ARGUMENT... -- PATTERN: whether seqgrad has the command, and its help the pattern
can() {
  local words=() help
  while [[ $1 != -- ]]; do
    words+=("$1")
    shift
  done
  help=$("$seqgrad" "${words[@]}" --help 2>/dev/null) && grep -qF -- "$2" <<<"$help"
}
# lacks JOB WHAT: says once a job that the build cannot do its part
lacks() { say "$seqgrad has no '$2': PyTorch's figures alone for $1 (is the build up to date?)"; }

train_job() { # train_job JOB ATTENTION OPTION...
  local job=$1 attention=$2 precision ours_bf16=-
  shift 2
  local arguments="--attention $attention --threads $threads $*${data:+ --data $(quoted "$data")}"
  measure "$job-$attention" "$ours train --json $arguments${data:+ --preset multi30k}"
  if can bench train -- bf16; then
    ours_bf16=$job-$attention-bf16
    measure "$ours_bf16" "$ours train --json $arguments${data:+ --preset multi30k} --precision bf16"
  fi
  for precision in f32 medium bf16; do
    measure "$job-$attention-torch-$precision" "$torch train-speed $arguments --precision $precision"
  done
  compare "$job" "$attention" "$job-$attention" "$job-$attention-torch-f32" "$job-$attention-torch-medium"
  compare "$job" "$attention,bf16" "$ours_bf16" "$job-$attention-torch-bf16"
}

translate_job() { # translate_job JOB CASE OURS_EXTRA TORCH_EXTRA
  local job=$1 case=$2 precision ours_here=$1 ours_bf16=-
  local arguments
  arguments="--model $(quoted "$model") --source $(quoted "$text") --threads $threads"
  # Ours gives the speed of batches and the latency in one run.
  [[ $job == beam ]] || ours_here=decode
  if ! can bench decode -- --model; then
    lacks "$job" "bench decode"
    ours_here=-
  elif [[ $job == beam ]] && ! can bench decode -- --beam; then
    lacks "$job" "bench decode --beam"
    ours_here=-
  else
    measure "$ours_here" "$ours decode --json $arguments --batch 64 $3"
    if can bench decode -- bf16; then
      ours_bf16=$ours_here-bf16
      measure "$ours_bf16" "$ours decode --json $arguments --batch 64 --precision bf16 $3"
    fi
  fi
  for precision in f32 medium bf16; do
    measure "$job-torch-$precision" "$torch translate-speed $arguments --batch 64 --precision $precision $4"
  done
  compare "$job" "$case" "$ours_here" "$job-torch-f32" "$job-torch-medium"
  compare "$job" "$case,bf16" "$ours_bf16" "$job-torch-bf16"
}

for job in "${jobs[@]}"; do
  case $job in
    train) for attention in sdp bahdanau; do train_job train $attention --steps "$steps"; done ;;
    small) train_job small sdp --embedding 128 --hidden 128 --batch 32 --steps "$((5 * steps))" ;;
    decode) translate_job decode greedy "" "" ;;
    beam) translate_job beam 5 "--beam 5" "--beam 5" ;;
    latency) translate_job latency greedy "" --latency ;;
    tape)
      tape=-
      if can bench kernels -- --json; then
        tape=tape
        measure tape "$ours kernels --json"
      else
        lacks tape "bench kernels --json"
      fi
      measure tape-torch "$torch tape-speed"
      compare tape chain "$tape" tape-torch
      ;;
  esac
done

for ((run = 1; run <= runs; ++run)); do
  for name in "${names[@]}"; do
    say "run $run of $runs: $name"
    eval "${command[$name]}" >"$folder/out" 2>"$folder/err" || fail 1 "failed: ${command[$name]}: $(tail -n 3 "$folder/err")"
    tail -n 1 "$folder/out" >>"$folder/$name.jsonl"
  done
done

library=$(ldd "$seqgrad" 2>/dev/null | sed -n 's/.*openblas[^ ]* => \([^ ]*\).*/\1/p' || true)
"$python" "$here/comparison.py" "$folder" "$library" "$threads" "${data:-made up}" "$json"
