#!/usr/bin/env bash
# memory.sh SEQGRAD [STEPS]: trains STEPS steps (2000) in three epochs and prints what memory the process holds after each tenth
# of them. The exit status is 1 if it grew by more than 4 MiB since the first epoch, whose batches are of every shape.
set -euo pipefail

seqgrad=$(realpath "$1")
steps=${2:-2000}
pairs=3600
batch=$((3 * pairs / steps))
steps=$((3 * ((pairs + batch - 1) / batch)))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

"$seqgrad" demo --epochs 1 --out demo >/dev/null 2>&1 || true
settings=(--tokenizer whitespace --embedding 64 --hidden 64 --attention-dim 32 --batch "$batch" --epochs 3
  --validate-every $((steps / 10)) --teacher-forcing 0.7 --keep-last 2)
for side in source:de target:en; do
  for part in train valid; do
    head -n $([[ $part == train ]] && echo "$pairs" || echo 100) "demo/corpus/$part.${side#*:}" >"$part.${side#*:}"
    settings+=("--$part-${side%:*}" "$part.${side#*:}")
  done
done

coproc training { exec "$seqgrad" train --out run "${settings[@]}" 2>&1 >/dev/null; }
pid=$training_PID
first=0 last=0
echo "step   epoch  MiB"
while read -r line <&"${training[0]}"; do
  [[ $line =~ ^epoch\ ([0-9]+)/3\ \ step\ ([0-9]+)\  ]] || continue
  epoch=${BASH_REMATCH[1]} step=${BASH_REMATCH[2]}
  kilobytes=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null) || true
  [[ -n $kilobytes ]] || continue # it has ended
  printf '%5d  %d      %d.%d\n' "$step" "$epoch" $((kilobytes / 1024)) $((kilobytes % 1024 * 10 / 1024))
  [[ $epoch != 1 ]] || first=$kilobytes
  last=$kilobytes
done
wait "$pid" || {
  echo "memory.sh: the training failed" >&2
  exit 1
}
((first > 0 && last > 0)) || {
  echo "memory.sh: nothing was seen" >&2
  exit 1
}
echo "$steps steps: $((last - first)) KiB more than in the first epoch"
((last - first <= 4096))
