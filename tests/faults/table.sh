#!/usr/bin/env bash
# table.sh SEQGRAD [FLIPS]: what may happen to a training and to its files, each with the line that is printed and the exit status.
# FLIPS (1000) bits of each file are flipped one at a time. Some faults need root, and are left out without it.
set -euo pipefail

seqgrad=$(realpath "$1")
flips=${2:-1000}
RANDOM=${RANDOM_SEED:-1}
folder=$(mktemp -d)
mounted=
pid=
cleanup() {
  [[ -z $pid ]] || kill -KILL "$pid" 2>/dev/null || true
  [[ -z $mounted ]] || umount "$mounted"
  rm -rf "$folder"
}
trap cleanup EXIT
cd "$folder"

"$seqgrad" demo --epochs 1 --out demo >/dev/null 2>&1 || true
data=(--train-source train.de --train-target train.en --valid-source valid.de --valid-target valid.en)
settings=(--tokenizer whitespace --embedding 12 --hidden 12 --attention-dim 8 --batch 32 --threads 1 --checkpoint-every 4 "${data[@]}")
for side in de en; do
  head -n 400 demo/corpus/train.$side >train.$side
  head -n 20 demo/corpus/valid.$side >valid.$side
done
"$seqgrad" train --out good "${settings[@]}" --epochs 2 >/dev/null 2>&1

# row NAME COMMAND...: the last line that the command prints on its standard error, and its exit status.
row() {
  local name=$1 status=0
  shift
  "$@" >/dev/null 2>err </dev/null || status=$?
  printf '%-34s %3d  %s\n' "$name" "$status" "$(tail -n 1 err)"
}
# broken: a copy of the good run, in place of the last one.
broken() {
  rm -rf run
  cp -r good run
}
resume=("$seqgrad" train --resume run --epochs 3)
translate=("$seqgrad" translate --model run)

# flip FILE: one bit of it.
flip() {
  local size place byte
  size=$(stat -c %s "$1")
  place=$(((RANDOM * 32768 + RANDOM) % size))
  byte=$(od -An -tu1 -j "$place" -N 1 "$1")
  printf "\\x$(printf %02x $((byte ^ (1 << RANDOM % 8))))" | dd of="$1" bs=1 seek="$place" conv=notrunc status=none
}
# flipped NAME FILE COMMAND...: how often one flipped bit is noticed, and one of the lines.
flipped() {
  local name=$1 file=$2 refused=0 line= status
  shift 2
  for ((i = 0; i < flips; ++i)); do
    cp "good/$file" "run/$file"
    flip "run/$file"
    status=0
    "$@" >/dev/null 2>err </dev/null || status=$?
    if ((status == 2)); then
      refused=$((refused + 1)) line=$(tail -n 1 err)
      [[ $line == "seqgrad: run/"* ]] || echo "no file is named: $line"
    elif ((status != 0)); then
      echo "$name: exit status $status: $(tail -n 1 err)"
    fi
    [[ $file == config.toml ]] || cp good/config.toml run/
  done
  cp "good/$file" "run/$file"
  printf '%-34s   2  %d of %d refused, e.g. %s\n' "$name" "$refused" "$flips" "$line"
}

for file in checkpoint.safetensors model.safetensors vocab.source config.toml; do
  command=("${translate[@]}")
  [[ $file != checkpoint* ]] || command=("${resume[@]}")
  broken
  truncate -s $(($(stat -c %s "good/$file") / 2)) "run/$file"
  row "half of $file" "${command[@]}"
  broken
  : >"run/$file"
  row "no byte of $file" "${command[@]}"
  broken
  printf '\xff\xff\xff\xff\xff\xff\xff\x7f{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}}' >"run/$file"
  row "hostile $file" "${command[@]}"
  broken
  flipped "a flipped bit of $file" "$file" "${command[@]}"
done
broken
sed -i 's/"format":"3"/"format":"9"/' run/checkpoint.safetensors
row "checkpoint of a newer version" "${resume[@]}"
broken
cp run/model.safetensors run/checkpoint.safetensors
row "weights in place of a checkpoint" "${resume[@]}"
broken
sed -i 's/^dropout = .*/dropout = 0.25/' run/config.toml
row "another dropout in config.toml" "${resume[@]}"
broken
head -n 399 train.de >shorter.de
head -n 399 train.en >shorter.en
row "other text" "${resume[@]}" --train-source shorter.de --train-target shorter.en

row "learning rate 1e4" "$seqgrad" train --out far "${settings[@]}" --epochs 50 --learning-rate 1e4 --clip 0
row "learning rate 1e18" "$seqgrad" train --out farther "${settings[@]}" --epochs 50 --learning-rate 1e18 --clip 0
row "the same, --detect-anomaly" "$seqgrad" train --out farthest "${settings[@]}" --epochs 50 --learning-rate 1e18 --clip 0 --detect-anomaly
row "a model beyond the memory" "$seqgrad" train --out wide "${settings[@]}" --hidden 1000000

# started NAME OPTION...: a training in the background, once it has its first checkpoint.
started() {
  local out=$1
  shift
  # A shell's background ignores SIGINT, and so would the program.
  env --default-signal=INT "$seqgrad" train --out "$out" "${settings[@]}" --epochs 100000 "$@" >/dev/null 2>"$out.err" </dev/null &
  pid=$!
  while [[ ! -e $out/checkpoint.safetensors ]]; do sleep 0.01; done
}
# ended NAME OUT: its last line and exit status.
ended() {
  local status=0
  wait "$pid" || status=$?
  pid=
  printf '%-34s %3d  %s\n' "$1" "$status" "$(tail -n 1 "$2.err")"
}
started busy
row "two runs in one folder" "$seqgrad" train --resume busy
kill -INT "$pid"
ended "SIGINT" busy
started terminated
kill -TERM "$pid"
ended "SIGTERM" terminated
started gone
mv gone away
while ! grep -q 'training goes on' gone.err; do sleep 0.01; done
printf '%-34s   -  %s\n' "folder removed while training" "$(grep -m 1 'training goes on' gone.err)"
kill -INT "$pid"
ended "and stopped then" gone
started gone2 --stop-on-save-failure
mv gone2 away2
ended "the same, --stop-on-save-failure" gone2

if ((EUID == 0)) && mkdir small && mount -t tmpfs -o size=1m tmpfs small 2>/dev/null; then
  mounted=$folder/small
  cp -r good small/run
  sed -i 's/^epochs = .*/epochs = 4/' small/run/config.toml
  dd if=/dev/zero of=small/fill bs=1k status=none 2>/dev/null || true
  row "full disk" "$seqgrad" train --resume small/run
  row "the same, --stop-on-save-failure" "$seqgrad" train --resume small/run --stop-on-save-failure
  rm small/fill
  mount -o remount,ro small
  row "read-only file system" "$seqgrad" train --resume small/run
fi
