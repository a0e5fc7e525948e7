#!/usr/bin/env python3
"""The translator of seqgrad in PyTorch, and its speed: the same model, text, batches and counting as 'seqgrad bench'.

Parameters have the same names, so that the model.safetensors of 'seqgrad train' loads here. tools/bench/compare.sh runs both
programs in turn; by itself:

    python tools/bench/torch_seq2seq.py train-speed --data data/multi30k --attention bahdanau
    python tools/bench/torch_seq2seq.py translate-speed --model runs/sdp --source test.de --output translations.en
"""

import argparse
import ctypes
import gzip
import json
import math
import resource
import statistics
import struct
import sys
import time
from pathlib import Path

import numpy
import torch
import torch.nn.functional as F
from torch import nn

PAD, UNKNOWN, START, END = range(4)
SPECIALS = ["<pad>", "<unk>", "<s>", "</s>"]


# ---- Text: vocabulary, pairs and batches as seq2seq/vocabulary.cpp and corpus.cpp make them -------------------------


def read_lines(path):
    opener = gzip.open if str(path).endswith(".gz") else open
    with opener(path, "rb") as file:
        return file.read().decode("utf-8").removesuffix("\n").split("\n")


class Vocabulary:
    def __init__(self, tokens):
        self.tokens = tokens
        self.ids = {token: i for i, token in enumerate(tokens)}

    @classmethod
    def build(cls, sentences, min_frequency=2):
        counts = {}
        for words in sentences:
            for word in words:
                counts[word] = counts.get(word, 0) + 1
        kept = [word for word, count in counts.items() if count >= min_frequency and word not in SPECIALS]
        return cls(SPECIALS + sorted(kept, key=lambda word: (-counts[word], word.encode())))

    def encode(self, words):
        return [self.ids.get(word, UNKNOWN) for word in words]

    def decode(self, ids):
        return " ".join(self.tokens[i] for i in ids)

    def __len__(self):
        return len(self.tokens)


class SplitMix64:
    """seq2seq/random.h: the order of the data is the same on both sides."""

    MASK = 2**64 - 1

    def __init__(self, seed, stream=None):
        self.state = seed
        if stream is not None:
            self.state = self.next() ^ SplitMix64(~stream & self.MASK).next()

    def next(self):
        self.state = z = (self.state + 0x9E3779B97F4A7C15) & self.MASK
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & self.MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & self.MASK
        return z ^ (z >> 31)

    def below(self, n):
        draw = self.next()
        while draw < 2**64 % n:
            draw = self.next()
        return draw % n

    def shuffle(self, items):
        for i in range(len(items), 1, -1):
            j = self.below(i)
            items[i - 1], items[j] = items[j], items[i - 1]


def make_batches(pairs, size, seed=1, epoch=0):
    """Lists of rows: pools of 100 batches sorted by length, batches in random order."""
    generator = SplitMix64(seed, epoch)
    order = list(range(len(pairs)))
    generator.shuffle(order)
    batches = []
    for begin in range(0, len(order), size * 100):
        pool = sorted(order[begin : begin + size * 100], key=lambda i: (len(pairs[i][0]), len(pairs[i][1])))
        for first in range(0, len(pool), size):
            batches.append(sorted(pool[first : first + size], key=lambda i: -len(pairs[i][0])))
    generator.shuffle(batches)
    return batches


def pad(rows):
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


class Batch:
    def __init__(self, pairs):
        self.source, self.lengths = pad([source for source, _ in pairs]), torch.tensor([len(source) for source, _ in pairs])
        self.target_in = pad([[START] + target for _, target in pairs]).t().contiguous()  # a step's words side by side
        target_out = pad([target + [END] for _, target in pairs]).reshape(-1)
        self.real = target_out.ne(PAD).nonzero().squeeze(1)  # the output layer sees real tokens only
        self.target = target_out[self.real]
        self.tokens = len(self.target)


def read_pairs(folder):
    sides = [[line.split() for line in read_lines(Path(folder) / f"train.lc.norm.tok.{s}")] for s in ("de", "en")]
    pairs = [(source, target) for source, target in zip(*sides, strict=True) if source and target]
    source, target = (Vocabulary.build([pair[side] for pair in pairs]) for side in (0, 1))
    return [(source.encode(s) + [END], target.encode(t)) for s, t in pairs], len(source), len(target)


def made_up_pairs(count):
    """seq2seq/benchmark.cpp: made-up sentences of Multi30k's lengths and vocabulary sizes."""
    source_words, target_words = 7853, 5893
    random = SplitMix64(1)
    pairs = []
    for _ in range(count):
        length = 5 + sum(random.below(6) for _ in range(3))
        source = [len(SPECIALS) + random.below(source_words - len(SPECIALS)) for _ in range(length)] + [END]
        target_length = length - 1 + random.below(4)
        pairs.append((source, [len(SPECIALS) + random.below(target_words - len(SPECIALS)) for _ in range(target_length)]))
    return pairs, source_words, target_words


# ---- Model ----------------------------------------------------------------------------------------------------------


class Encoder(nn.Module):
    def __init__(self, vocabulary, embedding, hidden, decoder_hidden, dropout):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        self.gru = nn.GRU(embedding, hidden, batch_first=True, bidirectional=True)
        self.bridge = nn.Linear(2 * hidden, decoder_hidden)

    def forward(self, source, lengths):  # (B, S), (B) falling -> (B, S, C), (B, D)
        embedded = self.dropout(self.embedding(source))
        packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths.cpu(), batch_first=True)
        output, last = self.gru(packed)
        output, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        return output, torch.tanh(self.bridge(torch.cat([last[0], last[1]], 1)))


class Attention(nn.Module):
    """W_k's bias and Va's add the same to all scores of a row, which softmax does not see: left out, as in seqgrad."""

    def __init__(self, kind, query, value, width):
        super().__init__()
        self.kind = kind
        if kind == "sdp":
            self.W_k, self.W_q = nn.Linear(value, width), nn.Linear(query, width)
        else:
            self.Wa, self.Ua, self.Va = nn.Linear(query, width), nn.Linear(value, width), nn.Linear(width, 1)

    @property
    def query(self):
        return self.W_q if self.kind == "sdp" else self.Wa

    def keys(self, values):  # (B, S, C) -> sdp (B, K, S), bahdanau (B, 1, S, K)
        if self.kind == "sdp":
            return F.linear(values, self.W_k.weight).transpose(1, 2)
        return self.Ua(values).unsqueeze(1)

    def forward(self, query, keys, bias):  # (B, Q, K), keys(), (B, 1, S) of 0 and -inf -> (B, Q, S)
        if self.kind == "sdp":
            scores = torch.baddbmm(bias, query, keys, alpha=1 / math.sqrt(query.shape[2]))
        else:
            scores = F.linear(torch.tanh(query.unsqueeze(2) + keys), self.Va.weight).squeeze(3) + bias
        return torch.softmax(scores, 2)


class Decoder(nn.Module):
    def __init__(self, vocabulary, embedding, hidden, context, attention, width, dropout):
        super().__init__()
        self.kind = attention
        context = 0 if attention == "none" else context
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        if attention in ("sdp", "bahdanau"):
            self.attention = Attention(attention, hidden, context, width)
        self.gru = nn.GRU(embedding + context, hidden)
        self.out = nn.Linear(hidden + context + embedding, vocabulary)

    def prepare(self, values, lengths, w_context):
        """What the steps need of the source, once a batch. The context's share of the gates is W sum_s a_s x_s = sum_s a_s W x_s:
        one large product here instead of a small one at each step."""
        if self.kind == "none":
            return ()
        if self.kind == "mean":
            context = values.sum(1) / lengths.unsqueeze(1)
            return context, F.linear(context, w_context)
        padding = torch.arange(values.shape[1]) >= lengths.unsqueeze(1)
        bias = torch.zeros(padding.shape, dtype=values.dtype).masked_fill_(padding, -math.inf).unsqueeze(1)
        return values, F.linear(values, w_context), self.attention.keys(values), bias

    def weights(self):
        """The cell's, split: the embeddings' share of the gates, the context's, and the state's with the query's."""
        gru, embedding = self.gru, self.embedding.embedding_dim
        w_embedding, w_context = gru.weight_ih_l0.tensor_split([embedding], 1)
        w_state, b_state = gru.weight_hh_l0, gru.bias_hh_l0
        if self.kind in ("sdp", "bahdanau"):  # one product with the state instead of two
            query = self.attention.query
            w_state, b_state = torch.cat([w_state, query.weight]), torch.cat([b_state, query.bias])
        return w_embedding, w_context, w_state, b_state

    def step(self, gates, state, memory, w_state, b_state):
        """gates (B, Q, G) of the embeddings, state (B, Q, D) -> state, attention weights (B, Q, S); Q states for each source."""
        hidden = state.shape[2]
        gh = F.linear(state, w_state, b_state)
        look = None
        if self.kind in ("sdp", "bahdanau"):
            _, projected, keys, bias = memory
            look = self.attention(gh[:, :, 3 * hidden :], keys, bias)
            gi = torch.baddbmm(gates, look, projected)
        else:
            gi = gates + memory[1].unsqueeze(1) if memory else gates
        r, z = torch.sigmoid(gi[:, :, : 2 * hidden] + gh[:, :, : 2 * hidden]).chunk(2, 2)
        n = torch.tanh(torch.addcmul(gi[:, :, 2 * hidden :], r, gh[:, :, 2 * hidden : 3 * hidden]))
        return torch.lerp(n, state, z), look

    def context(self, look, memory):  # (B, T, S) -> (B, T, C)
        if look is not None:
            return torch.bmm(look, memory[0])
        return memory[0].unsqueeze(1) if memory else None

    def forward(self, values, lengths, state, target_in):
        """target_in (T, B) -> what the output layer reads (B T, F)"""
        embedded = self.dropout(self.embedding(target_in))
        w_embedding, w_context, w_state, b_state = self.weights()
        memory = self.prepare(values, lengths, w_context)
        steps, batch = target_in.shape
        if self.kind == "none":  # no step needs a look: torch's own loop
            states = self.gru(embedded, state.unsqueeze(0))[0].transpose(0, 1)
            context = ()
        else:
            states, looks = [], []
            state = state.unsqueeze(1)
            for gates in F.linear(embedded, w_embedding, self.gru.bias_ih_l0).unsqueeze(2).unbind(0):
                state, look = self.step(gates, state, memory, w_state, b_state)
                states.append(state)
                looks.append(look)
            states = torch.cat(states, 1)
            look = None if looks[0] is None else torch.cat(looks, 1)
            context = (self.context(look, memory).expand(batch, steps, -1),)
        return torch.cat([states, *context, embedded.transpose(0, 1)], 2).flatten(0, 1)


class Seq2Seq(nn.Module):
    def __init__(self, source_words, target_words, attention, embedding, hidden, decoder_hidden=0, width=0, dropout=0.5):
        super().__init__()
        decoder_hidden = decoder_hidden or hidden
        width = width or (512 if attention == "bahdanau" else 64)
        self.encoder = Encoder(source_words, embedding, hidden, decoder_hidden, dropout)
        self.decoder = Decoder(target_words, embedding, decoder_hidden, 2 * hidden, attention, width, dropout)

    def loss(self, batch):
        values, state = self.encoder(batch.source, batch.lengths)
        features = self.decoder(values, batch.lengths, state, batch.target_in)
        logits = self.decoder.out(features.index_select(0, batch.real))
        return F.cross_entropy(logits, batch.target)


# ---- Runs that 'seqgrad train' wrote --------------------------------------------------------------------------------


def read_safetensors(path):
    """Name -> tensor, and the metadata."""
    data = Path(path).read_bytes()
    end = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:end])
    metadata = header.pop("__metadata__", {})
    types = {"F64": numpy.float64, "F32": numpy.float32, "I64": numpy.int64, "BOOL": numpy.bool_}
    tensors = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        values = numpy.frombuffer(data[end + first : end + last], types[entry["dtype"]])
        tensors[name] = torch.from_numpy(values.reshape(entry["shape"]).copy())
    return tensors, metadata


def read_settings(path):
    """A run's config.toml is flat, and its values are JSON's too."""
    lines = (line.split(" = ", 1) for line in read_lines(path) if " = " in line)
    return {key: json.loads(value) for key, value in lines}


def open_run(folder):
    folder = Path(folder)
    settings = read_settings(folder / "config.toml")
    fixed = {"cell": "gru", "gru-reset": "after", "bridge": "tanh-linear", "readout": "deep", "bidirectional": True, "layers": 1}
    for key, value in fixed.items():
        if settings.get(key, value) != value:
            sys.exit(f"{folder}: {key} is {settings[key]}: this program knows {value} only")
    source, target = (Vocabulary(read_lines(folder / name)) for name in ("vocab.source", "vocab.target"))
    sizes = [settings[name] for name in ("embedding", "hidden", "decoder-hidden", "attention-dim")]
    model = Seq2Seq(len(source), len(target), settings["attention"], *sizes)
    model.load_state_dict(read_safetensors(folder / "model.safetensors")[0])
    return model.eval(), source, target


# ---- Search ---------------------------------------------------------------------------------------------------------


class Translator:
    def __init__(self, model, source, target):
        self.model, self.source, self.target = model, source, target
        with torch.inference_mode():
            w_embedding, self.w_context, *self.w_state = model.decoder.weights()
            # The embeddings' share of the gates, for each word of the vocabulary: looked up, not computed.
            self.gates = F.linear(model.decoder.embedding.weight, w_embedding, model.decoder.gru.bias_ih_l0)

    def start(self, sources):
        lengths = torch.tensor([len(source) for source in sources])
        values, state = self.model.encoder(pad(sources), lengths)
        memory = self.model.decoder.prepare(values, lengths, self.w_context)
        return state.unsqueeze(1), memory, (2 * lengths + 10).tolist()

    def step(self, words, state, memory):  # words (B, Q) -> logits (B, Q, V), state (B, Q, D)
        decoder = self.model.decoder
        state, look = decoder.step(self.gates[words], state, memory, *self.w_state)
        context = decoder.context(look, memory)
        parts = [state, decoder.embedding(words)]
        if context is not None:
            parts.insert(1, context.expand(-1, state.shape[1], -1))
        return decoder.out(torch.cat(parts, 2)), state

    @torch.inference_mode()
    def greedy(self, sources):
        """Sources by falling length -> for each its words, and whether </s> ended them."""
        state, memory, limits = self.start(sources)
        words = torch.full((len(sources), 1), START)
        found, ended = [[] for _ in sources], [False] * len(sources)
        rows = list(range(len(sources)))  # the sentence in each row; None once it has ended
        while True:
            logits, state = self.step(words, state, memory)
            words = logits.argmax(2)
            for i, word in enumerate(words[:, 0].tolist()):
                row = rows[i]
                if row is None:
                    continue
                ended[row] = word == END
                if not ended[row]:
                    found[row].append(word)
                if ended[row] or len(found[row]) == limits[row]:
                    rows[i] = None
            rows, words, state, memory = self.close_up(rows, words, state, memory)
            if not rows:
                return list(zip(found, ended, strict=True))

    @staticmethod
    def close_up(rows, *parts):
        """Rows that ended leave once they are a tenth: sooner, the copying costs as much as it saves."""
        going = [i for i, row in enumerate(rows) if row is not None]
        if len(going) > 0.9 * len(rows):
            return rows, *parts
        kept = torch.tensor(going, dtype=torch.int64)
        take = lambda part: tuple(map(take, part)) if isinstance(part, tuple) else part.index_select(0, kept)
        return [rows[i] for i in going], *map(take, parts)

    @torch.inference_mode()
    def beam(self, sources, width):
        """As greedy(), the best of `width` translations."""
        state, memory, limits = self.start(sources)
        state = state.expand(-1, width, -1)
        words = torch.full((len(sources), width), START)
        scores = torch.full((len(sources), width), -math.inf)
        scores[:, 0] = 0
        history = torch.empty((len(sources), width, 0), dtype=torch.int64)
        found = [[] for _ in sources]  # (score, words)
        rows = list(range(len(sources)))
        while True:
            logits, state = self.step(words, state, memory)
            vocabulary = logits.shape[2]
            log_p = (torch.log_softmax(logits.float(), 2) + scores.unsqueeze(2)).flatten(1)
            best, index = log_p.topk(2 * width, 1)  # so many, that `width` go on even if all others end
            beam, word = index // vocabulary, index % vocabulary
            ended = word.eq(END)
            length = history.shape[2] + 1
            for i, j in ended[:, :width].nonzero().tolist():
                if rows[i] is not None and best[i, j] > -math.inf:
                    found[rows[i]].append((best[i, j].item() / length, history[i, beam[i, j]].tolist()))
            going = ended.to(torch.int8).argsort(dim=1, stable=True)[:, :width]
            scores, beam, words = best.gather(1, going), beam.gather(1, going), word.gather(1, going)
            history = torch.cat([history.gather(1, beam.unsqueeze(2).expand_as(history)), words.unsqueeze(2)], 2)
            state = state.gather(1, beam.unsqueeze(2).expand_as(state))
            for i, row in enumerate(rows):
                if row is None:
                    continue
                if length == limits[row] and not found[row]:
                    found[row].append((-math.inf, history[i, 0].tolist()))
                if length == limits[row] or len(found[row]) >= width:
                    rows[i] = None
            rows, words, scores, history, state, memory = self.close_up(rows, words, scores, history, state, memory)
            if not rows:
                best = [max(all_found) for all_found in found]
                return [(ids, score > -math.inf) for score, ids in best]

    def translate(self, lines, batch, width=1):
        """Lines of text -> lines of text, and the number of their tokens with </s>."""
        sources = [self.source.encode(line.split()) for line in lines]
        order = sorted((i for i, source in enumerate(sources) if source), key=lambda i: -len(sources[i]))
        translations, tokens = [""] * len(lines), 0
        for first in range(0, len(order), batch):
            part = order[first : first + batch]
            rows = [sources[i] + [END] for i in part]
            for i, (ids, ended) in zip(part, self.greedy(rows) if width == 1 else self.beam(rows, width), strict=True):
                translations[i] = self.target.decode(ids)
                tokens += len(ids) + ended
        return translations, tokens


# ---- Measurements ---------------------------------------------------------------------------------------------------


def peak_memory_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def start(options):
    """Threads, precision and memory as somebody sets them who wants speed."""
    torch.set_default_device(options.device)
    torch.set_num_threads(options.threads)
    # "medium" lets torch multiply f32 matrices with oneDNN instead of MKL, and oneDNN round the factors to bf16. Where it has
    # no faster way with bf16 it stays with f32, on AVX-512 on any maker's CPU: see product_error in the result.
    torch.set_float32_matmul_precision("medium" if options.precision == "medium" else "highest")
    # Freed memory stays in the process, as with the allocators that PyTorch's tuning guide recommends: 4 to 9 per cent of a
    # training step was page faults.
    mallopt = ctypes.CDLL(None).mallopt
    m_trim_threshold, m_mmap_threshold = -1, -3
    mallopt(m_mmap_threshold, 1 << 30)
    mallopt(m_trim_threshold, (1 << 31) - 1)


def product_error():
    """Of a product at the chosen precision: 1e-7 or so is f32, 1e-3 bf16."""
    generator = torch.Generator(torch.get_default_device()).manual_seed(1)
    a, b = (torch.randn(256, 1024, generator=generator) for _ in range(2))
    exact = a.double() @ b.double().t()
    return ((F.linear(a, b) - exact).norm() / exact.norm()).item()


def report(options, **result):
    about = {
        "torch": torch.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
        "precision": options.precision,
        "product_error": product_error(),
        "peak_memory_megabytes": peak_memory_megabytes(),
    }
    print(json.dumps(result | about))


def train_speed(options):
    warm_up = 4
    torch.manual_seed(options.seed)
    if options.data:
        pairs, source, target = read_pairs(options.data)
    else:
        pairs, source, target = made_up_pairs(options.batch * min(options.steps + warm_up, 200))
    sizes = options.embedding, options.hidden, 0, options.attention_dim
    model = Seq2Seq(source, target, options.attention, *sizes, dropout=options.dropout)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    batches = make_batches(pairs, options.batch, options.seed)
    autocast = torch.autocast(options.device, torch.bfloat16, enabled=options.precision == "bf16")

    def step(numbers):
        batch = Batch([pairs[i] for i in numbers])
        start = time.perf_counter()
        adam.zero_grad(set_to_none=True)
        with autocast:
            loss = model.loss(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        adam.step()
        return loss.item(), time.perf_counter() - start, batch.tokens

    def size(numbers):
        return sum(max(len(pairs[i][side]) for i in numbers) for side in (0, 1)) * len(numbers)

    # As seqgrad's bench: the largest batch first, after which no other should need memory.
    order = [batches[i % len(batches)] for i in range(warm_up + options.steps)]
    step(max(order, key=size))
    losses, seconds, tokens = zip(*[step(numbers) for numbers in order])
    seconds, tokens = seconds[warm_up:], sum(tokens[warm_up:])
    report(
        options,
        data=options.data or "made up",
        attention=options.attention,
        batch=options.batch,
        steps=options.steps,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        target_tokens_per_second=tokens / sum(seconds),
        milliseconds_per_step=1e3 * statistics.median(seconds),
        target_tokens=tokens,
        last_loss=losses[-1],
    )


def translate_speed(options):
    model, source, target = open_run(options.model)
    if options.precision == "bf16":
        model.bfloat16()
    translator = Translator(model, source, target)
    lines = read_lines(options.source)
    batch = 1 if options.latency else options.batch
    translator.translate(lines[:batch], batch, options.beam)  # warm-up
    each = []
    start = time.perf_counter()
    if options.latency:
        translations, tokens = [], 0
        for line in lines:
            before = time.perf_counter()
            translation, count = translator.translate([line], 1, options.beam)
            each.append(1e3 * (time.perf_counter() - before))
            translations += translation
            tokens += count
    else:
        translations, tokens = translator.translate(lines, batch, options.beam)
    seconds = time.perf_counter() - start
    if options.output:
        Path(options.output).write_text("".join(line + "\n" for line in translations), encoding="utf-8")
    latency = {}
    if each:
        each.sort()
        latency = {"latency_median_ms": statistics.median(each), "latency_p99_ms": each[math.ceil(0.99 * len(each)) - 1]}
    report(
        options,
        model=options.model,
        sentences=len(lines),
        batch=batch,
        beam=options.beam,
        tokens=tokens,
        seconds=seconds,
        tokens_per_second=tokens / seconds,
        **latency,
    )


def tape_speed(options):
    """seq2seq/benchmark_tape.cpp: a chain of sums and products of one element, the fastest of several times."""
    x = torch.full((1,), 0.5, requires_grad=True)
    best = (math.inf, math.inf)
    for _ in range(options.repetitions + 1):
        x.grad = None
        start = time.perf_counter()
        y = x
        for i in range(options.nodes):
            y = y * x if i % 2 else y + x
        middle = time.perf_counter()
        y.backward()
        end = time.perf_counter()
        best = min(best, (middle - start, end - middle), key=sum)
        del y
    forward, backward = (1e6 * seconds / options.nodes for seconds in best)
    report(
        options,
        nodes=options.nodes,
        forward_us=forward,
        backward_us=backward,
        tape_nodes_per_second=1e6 / (forward + backward),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, run, help):
        sub = commands.add_parser(name, help=help, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
        sub.set_defaults(run=run)
        sub.add_argument("--threads", type=int, default=2)
        sub.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
        sub.add_argument("--precision", choices=["f32", "medium", "bf16"], default="f32", help=PRECISION)
        return sub

    train = command("train-speed", train_speed, "speed of training, as 'seqgrad bench train --json'")
    train.add_argument("--data", metavar="DIR", help="folder of Multi30k's tokenised text (default: made-up text of its shape)")
    train.add_argument("--attention", choices=["none", "mean", "sdp", "bahdanau"], default="sdp")
    for name, default in {"embedding": 256, "hidden": 512, "attention-dim": 0, "batch": 128, "steps": 30, "seed": 1}.items():
        train.add_argument(f"--{name}", type=int, default=default)
    train.add_argument("--dropout", type=float, default=0.5)

    translate = command("translate-speed", translate_speed, "speed of translating, as 'seqgrad bench decode --json'")
    translate.add_argument("--model", required=True, metavar="RUN", help="folder that 'seqgrad train' wrote")
    translate.add_argument("--source", required=True, metavar="FILE", help="text to translate")
    translate.add_argument("--batch", type=int, default=64)
    translate.add_argument("--beam", type=int, default=1, help="hypotheses; 1: greedy search")
    translate.add_argument("--latency", action="store_true", help="one sentence at a time")
    translate.add_argument("--output", metavar="FILE", help="where to write the translations")

    tape = command("tape-speed", tape_speed, "what an operation costs that computes next to nothing")
    tape.add_argument("--nodes", type=int, default=200_000)
    tape.add_argument("--repetitions", type=int, default=5)

    options = parser.parse_args()
    start(options)
    options.run(options)


PRECISION = (
    "f32: torch as it comes; medium: torch.set_float32_matmul_precision('medium'); bf16: training under torch.autocast, "
    "translating with bf16 weights"
)

if __name__ == "__main__":
    main()
