#!/usr/bin/env bash
# kills.sh SEQGRAD [COUNT]: kills a training COUNT times (200) at random instants. After each kill every file of the run is
# whole, no more steps are lost than lie between two checkpoints, and in the end the run is the one that was never killed, to
# the byte. Prints what it saw; the exit status is 1 at the first breach. RANDOM_SEED fixes the instants.
set -euo pipefail

command -v script >/dev/null || {
  echo "kills.sh: skipped: there is no 'script' to make a terminal with"
  exit 77
}
seqgrad=$(realpath "$1")
count=${2:-200}
interval=4 # steps between checkpoints
RANDOM=${RANDOM_SEED:-1}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
  echo "kills.sh: $*" >&2
  [[ ! -s log ]] || tail -c 500 log >&2
  exit 1
}

# The demo's corpus; its model is of no interest.
"$seqgrad" demo --epochs 1 --out demo >/dev/null 2>&1 || true
[[ -s demo/corpus/train.de ]] || fail "no corpus"
settings=(--tokenizer whitespace --embedding 12 --hidden 12 --attention-dim 8 --threads 1 --epochs 100000 --validate-every 11 --keep-last 3
  --checkpoint-every "$interval" --teacher-forcing 0.7 --schedule inverse-sqrt --warmup 50 --ema 0.9)
for side in source:de target:en; do
  for part in train valid; do
    head -n $([[ $part == train ]] && echo 400 || echo 20) "demo/corpus/$part.${side#*:}" >"$part.${side#*:}"
    settings+=("--$part-${side%:*}" "$part.${side#*:}")
  done
done

# The step of the run's checkpoint; 0 before the first.
saved_step() {
  if [[ -e run/checkpoint.safetensors ]]; then
    head -c 20000 run/checkpoint.safetensors | grep -aoP '"step":"\K[0-9]+' | head -n 1
  else
    echo 0
  fi
}

# The last step that the progress line in `log` speaks of: "epoch 3/100000  step 2/4  loss ..."
seen_step() {
  local line
  line=$(tr '\r' '\n' <log | grep -aoP 'epoch \d+/\d+  step \d+/\d+' | tail -n 1)
  [[ -n $line ]] || {
    echo 0
    return
  }
  read -r epoch step steps < <(sed -E 's|epoch ([0-9]+)/[0-9]+  step ([0-9]+)/([0-9]+)|\1 \2 \3|' <<<"$line")
  echo $(((epoch - 1) * steps + step))
}

# The command that starts the run or goes on with it.
choose_command() {
  if [[ -e run/config.toml ]]; then
    command=("$seqgrad" train --resume run)
  else
    rm -rf run
    command=("$seqgrad" train --out run "${settings[@]}")
  fi
}

lost_most=0 without=0
for ((i = 1; i <= count; ++i)); do
  choose_command
  before=$(saved_step)
  : >log
  # On a terminal of its own, so that it tells its steps.
  script -qfec "exec ${command[*]@Q}" log >/dev/null 2>&1 </dev/null &
  terminal=$!
  sleep "$(printf '%d.%03d' $((RANDOM % 2)) $((RANDOM % 1000)))"
  pkill -KILL -P "$terminal" 2>/dev/null || true
  wait "$terminal" 2>/dev/null || true
  ! grep -a 'seqgrad: ' log || fail "kill $i: the training ended by itself"
  after=$(saved_step) seen=$(seen_step)
  ((after >= before)) || fail "kill $i: the checkpoint went back from step $before to $after"
  ((seen == 0)) || ((seen - after <= interval)) || fail "kill $i: step $seen was reached, but the checkpoint is of step $after"
  ((seen - after <= lost_most)) || lost_most=$((seen - after))
  ((after > before)) || without=$((without + 1))
  if [[ -e run/model.safetensors ]]; then
    "$seqgrad" show model --model run >/dev/null || fail "kill $i: the model cannot be read"
  fi
  for weights in run/kept/*.safetensors; do
    [[ ! -e $weights ]] || [[ $(stat -c %s "$weights") == $(stat -c %s run/model.safetensors) ]] || fail "kill $i: $weights is cut"
  done
done

last=$(($(saved_step) + 30))
choose_command
"${command[@]}" --max-steps "$last" >log 2>&1 || fail "the run does not go on"
"$seqgrad" train --out whole "${settings[@]}" --max-steps "$last" >/dev/null 2>&1 || fail "the uninterrupted run fails"
for file in model.safetensors checkpoint.safetensors vocab.source vocab.target config.toml; do
  cmp "run/$file" "whole/$file" || fail "$file differs from the uninterrupted run's"
done
diff -r run/kept whole/kept || fail "the kept weights differ"
rest=$(find run -name '*.tmp-*')
[[ -z $rest ]] || fail "files were left behind: $rest"
echo "$count kills up to step $last, $without of them before a new checkpoint; at most $lost_most steps lost of $interval" \
  "allowed; the run is the uninterrupted one to the byte"
