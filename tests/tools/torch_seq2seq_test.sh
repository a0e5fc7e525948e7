#!/usr/bin/env bash
# Tests tools/bench/torch_seq2seq.py where there is torch: SEQGRAD_TORCH_PYTHON names a Python that has it.
# Usage: torch_seq2seq_test.sh SEQGRAD SOURCE
set -euo pipefail

if [[ -z ${SEQGRAD_TORCH_PYTHON:-} ]]; then
  echo "torch_seq2seq: skipped (no torch; SEQGRAD_TORCH_PYTHON names a Python that has it)"
  exit 77
fi
exec "$SEQGRAD_TORCH_PYTHON" -B "$(dirname "${BASH_SOURCE[0]}")/torch_seq2seq_test.py" "$@"
