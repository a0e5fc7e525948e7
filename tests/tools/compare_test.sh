#!/usr/bin/env bash
# Tests tools/bench/compare.sh with programs that answer at once, in place of seqgrad and PyTorch.
# Usage: compare_test.sh SCRIPT
set -euo pipefail

script=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
if ! python=$(command -v python3); then
  echo "compare: skipped (no python3)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cd "$work"

failures=0
check() { # check WHAT COMMAND...
  if ! "${@:2}"; then
    echo "FAILED: $1" >&2
    failures=$((failures + 1))
  fi
}
status=0
run() { # run ARGUMENTS...: leaves status, out and log
  status=0
  SEQGRAD_PROGRAM=$work/seqgrad "$BASH" "$script" --python "$work/python" "$@" >out 2>log || status=$?
}
status_is() { [[ $status == "$1" ]] || { cat log >&2 && false; }; }
log_says() { grep -qF -- "$1" log; }
table_says() { grep -qE -- "^$1$" <(sed 's/  */ /g' out); }

# A seqgrad that trains at 300, 100, 200 tokens/s, knows --precision bf16 and no 'bench decode'.
cat >seqgrad <<'END'
#!/usr/bin/env bash
echo "$*" >>calls
[[ $2 != decode ]] || exit 2
if [[ $* == *--help* ]]; then
  echo "--precision f32|bf16 --json"
elif [[ $2 == kernels ]]; then
  echo '{"tape_nodes_per_second": 9e6}'
else
  runs=$(grep -c 'json' calls || true)
  echo '{"target_tokens_per_second": '$(((runs % 3 + 1) * 100))', "milliseconds_per_step": 5, "peak_memory_megabytes": 50}'
fi
END
# A Python that is one, with a torch of two functions, and a torch_seq2seq.py of constant answers.
mkdir modules && : >modules/numpy.py
cat >modules/torch.py <<'END'
__version__ = "0.1"
class __config__:
    show = staticmethod(lambda: "  - Math Kernel Library 1-Product Build 2\n  - MKL-DNN v3 (Git Hash 4)")
class backends:
    class cpu:
        get_cpu_capability = staticmethod(lambda: "AVX")
END
cat >python <<END
#!/usr/bin/env bash
echo "\$*" >>calls
if [[ \$1 == */torch_seq2seq.py ]]; then
  echo '{"precision": "'\${*: -1}'", "product_error": 1e-7, "tokens_per_second": 7, "target_tokens_per_second": 400,' \\
    '"milliseconds_per_step": 4, "peak_memory_megabytes": 100, "tape_nodes_per_second": 1e6}'
  exit
fi
PYTHONPATH=$work/modules exec "$python" "\$@"
END
chmod +x seqgrad python

run train
check "it runs" status_is 0
check "the median and the ratio" table_says 'train sdp f32 tokens/s 200 ±50% 400 ±0% 0.50'
check "time" table_says 'train bahdanau medium ms a step 5 ±0% 4 ±0% 1.25'
check "memory" table_says 'train sdp, bf16 bf16 peak MB 50 ±0% 100 ±0% 0.50'
check "libraries" table_says 'PyTorch 0.1: Math Kernel Library 1, MKL-DNN v3; AVX'
check "both in turn" [ "$(grep -c 'attention sdp.*--steps 30' calls)" = 15 ]

run tape --runs 1 --json result
check "it runs" status_is 0
check "the tape" grep -q '"ratio": 9.0' result

mkdir model && touch model/model.safetensors text
run decode --model model --source text --runs 1
check "a command that is lacking is no error" status_is 0
check "a command that is lacking is named" log_says "seqgrad has no 'bench decode': PyTorch's figures alone for decode"
check "PyTorch's figures alone" table_says 'decode greedy f32 tokens/s - 7 ±0% -'

run --help
check "help is help" status_is 0
check "help is help" grep -q '^Example: ' out
for wrong in "fast" "--runs" "--runs 0" "--data nowhere" "--model nowhere" "decode" "decode --model model" "train --source nowhere"; do
  # shellcheck disable=SC2086  # words
  run $wrong
  check "'$wrong' is refused" status_is 2
done

((failures == 0)) && echo "compare: all checks hold"
