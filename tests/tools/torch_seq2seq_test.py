"""Holds tools/bench/torch_seq2seq.py to recorded losses and gradients, and its translations to seqgrad's.

Usage: torch_seq2seq_test.py SEQGRAD SOURCE_FOLDER
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

seqgrad, source_folder = sys.argv[1], Path(sys.argv[2])
sys.path.insert(0, str(source_folder / "tools" / "bench"))
from torch_seq2seq import END, PAD, Batch, Seq2Seq, Translator, make_batches, open_run, read_safetensors  # noqa: E402


def check(what, holds):
    if not holds:
        sys.exit(f"torch_seq2seq_test: FAILED: {what}")


def close(a, b):
    return bool(((a - b).abs() <= 1e-10 * (1 + b.abs())).all())


for attention in ("none", "mean", "sdp", "bahdanau"):
    path = source_folder / f"tests/fixtures/torch/seq2seq_gru_bi_{attention}.safetensors"
    tensors, metadata = read_safetensors(path)
    config = json.loads(metadata["fixture"])["config"]
    words = config["src_vocab"], config["tgt_vocab"]
    sizes = [config.get(name) or 0 for name in ("emb", "hidden", "dec_hidden", "attention_dim")]
    model = Seq2Seq(*words, attention, *sizes, dropout=0).double()
    model.load_state_dict({name.removeprefix("param/"): x for name, x in tensors.items() if name.startswith("param/")})
    pairs = []
    for row, length in enumerate(tensors["input/src_lengths"].tolist()):
        target = [word for word in tensors["input/tgt_in"][row].tolist() if word != PAD][1:]
        pairs.append((tensors["input/src"][row, :length].tolist(), target))
    loss = model.loss(Batch(sorted(pairs, key=lambda pair: -len(pair[0]))))
    check(f"{attention}: the recorded loss", close(loss, tensors["expect/loss"].reshape(())))
    loss.backward()
    for name, parameter in model.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        check(f"{attention}: the recorded gradient of {name}", close(gradient, tensors[f"expect/grad/{name}"]))

# What make_batches() of seq2seq/corpus.cpp gives for the same lengths.
pairs = [([3] * (1 + i % 7), [4] * (i % 5)) for i in range(23)]
order = [[5, 12, 19, 4], [20, 6, 13], [10, 16, 2, 9], [15, 1, 22, 8], [11, 18, 17, 3], [0, 21, 7, 14]]
check("seqgrad's batches", make_batches(pairs, 4) == order)

with tempfile.TemporaryDirectory() as folder:
    folder = Path(folder)
    # Each word has its translation, and their order turns round: learned well enough within seconds.
    lines = [" ".join(f"{'abcdefgh'[(i * k + k) % 8]}{k % 2}" for k in range(1, 3 + i % 6)) for i in range(400)]
    (folder / "source").write_text("".join(line + "\n" for line in lines))
    (folder / "target").write_text("".join(" ".join(reversed(line.upper().split())) + "\n" for line in lines))
    for attention in ("none", "mean", "sdp", "bahdanau"):
        run = folder / attention
        command = [seqgrad, "train", "--out", run, "--attention", attention, "--threads", "1", "--epochs", "3", "--batch", "16"]
        for side in ("source", "target"):
            command += [f"--train-{side}", folder / side, f"--valid-{side}", folder / side]
        command += ["--embedding", "16", "--hidden", "24", "--dropout", "0.1", "--learning-rate", "0.01"]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        command = [seqgrad, "translate", "--model", run, "--threads", "1"]
        with open(folder / "source") as text:
            output = subprocess.run(command, stdin=text, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
        translated = output.decode().splitlines()
        check(f"{attention}: something was learned", len(set(translated)) > 20)
        translator = Translator(*open_run(run))
        check(f"{attention}: seqgrad's translations", translator.translate(lines, 7)[0] == translated)
        rows = sorted(([*translator.source.encode(line.split()), END] for line in lines), key=lambda row: -len(row))
        check(f"{attention}: one hypothesis is greedy search", translator.beam(rows, 1) == translator.greedy(rows))

print("torch_seq2seq: all checks hold")
