"""The table of compare.sh, from the results that it left in a folder.

Usage: comparison.py FOLDER OPENBLAS THREADS TEXT JSON
FOLDER/comparisons has lines of a job, a case, the name of our measurement ("-": none) and those of PyTorch's; FOLDER/NAME.jsonl
has one result a line. OPENBLAS is the library that seqgrad is linked to ("": unknown); JSON is a file to write ("": none).
"""

import ctypes
import json
import os
import statistics
import sys

import torch

TRAIN = [("target_tokens_per_second", "tokens/s"), ("milliseconds_per_step", "ms a step"), ("peak_memory_megabytes", "peak MB")]
TRANSLATE = [("tokens_per_second", "tokens/s")]
METRICS = {
    "train": TRAIN,
    "small": TRAIN,
    "decode": TRANSLATE,
    "beam": TRANSLATE,
    "latency": [("latency_median_ms", "median ms"), ("latency_p99_ms", "99th percentile ms")],
    "tape": [("tape_nodes_per_second", "nodes/s")],
}


def cpu():
    with open("/proc/cpuinfo") as file:
        return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))


def openblas(library):
    if not library:
        return "unknown BLAS"
    config = ctypes.CDLL(library).openblas_get_config
    config.restype = ctypes.c_char_p
    return config().decode().strip()


def torch_libraries():
    lines = [line.strip(" -") for line in torch.__config__.show().splitlines()]
    names = ("Math Kernel Library", "MKL-DNN")
    return [line.split("-Product")[0].split(" (Git")[0] for line in lines if any(name in line for name in names)]


def summary(values):
    median = statistics.median(values) if values else None
    return {"runs": values, "median": median, "spread": (max(values) - min(values)) / median if values else None}


def compare(folder):
    def results(name):
        if name == "-":
            return []
        with open(f"{folder}/{name}.jsonl") as file:
            return [json.loads(line) for line in file]

    with open(f"{folder}/comparisons") as file:
        for job, case, ours, *theirs in map(str.split, file):
            for name in theirs:
                sides = results(ours), results(name)
                for key, unit in METRICS[job]:
                    row = {"job": job, "case": case, "setting": sides[1][0]["precision"], "metric": key, "unit": unit}
                    row["product_error"] = sides[1][0]["product_error"]
                    mine, other = (summary([one[key] for one in side if key in one]) for side in sides)
                    ratio = mine["median"] / other["median"] if mine["runs"] and other["runs"] else None
                    yield row | {"seqgrad": mine, "torch": other, "ratio": ratio}


def number(x):
    return "-" if x is None else f"{x:.0f}" if x >= 100 else f"{x:.3g}"


def spread(x):
    return "" if x is None else f"±{50 * x:.0f}%"


def show(about, rows):
    print(f"{about['cpu']}, {about['processors']} processors, {about['threads']} threads; text: {about['text']}")
    print(f"seqgrad: {about['seqgrad_blas']}")
    print(f"PyTorch {about['torch']}: {', '.join(about['torch_blas'])}; {about['torch_cpu_capability']}")
    for row in rows:
        if row["setting"] == "medium":
            kind = "f32 arithmetic here" if row["product_error"] < 1e-5 else "bf16 factors here"
            print(f"medium: torch.set_float32_matmul_precision, {kind}: a product is off by {row['product_error']:.1e}")
            break
    print()
    table = [["job", "", "setting", "", "seqgrad", "", "PyTorch", "", "seqgrad/PyTorch"]]
    for row in rows:
        cells = [row["job"], row["case"].replace(",", ", "), row["setting"], row["unit"]]
        for side in ("seqgrad", "torch"):
            cells += [number(row[side]["median"]), spread(row[side]["spread"])]
        table.append([*cells, "-" if row["ratio"] is None else f"{row['ratio']:.2f}"])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        padded = [x.rjust(n) if i in (4, 6, 8) else x.ljust(n) for i, (x, n) in enumerate(zip(cells, widths, strict=True))]
        print("  ".join(padded).rstrip())


def main():
    folder, library, threads, text, output = sys.argv[1:]
    about = {
        "cpu": cpu(),
        "processors": os.cpu_count(),
        "threads": int(threads),
        "text": text,
        "seqgrad_blas": openblas(library),
        "torch": torch.__version__,
        "torch_blas": torch_libraries(),
        "torch_cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
    rows = list(compare(folder))
    show(about, rows)
    if output:
        with open(output, "w") as file:
            json.dump({"about": about, "results": rows}, file, indent=1)
            file.write("\n")


main()
