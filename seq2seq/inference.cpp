#include "seq2seq/inference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/packed.h"
#include "tensor/launch.h"
#include "tensor/matmul.h"

namespace seqgrad::seq2seq {
namespace {

// Columns of a matrix.
Tensor columns(const Tensor& x, i64 begin, i64 end) { return x.slice(1, begin, end); }
Tensor rows_of(const Tensor& x, i64 begin, i64 end) { return x.slice(0, begin, end); }
i64 stride(const Tensor& x) { return x.defined() ? x.strides()[0] : 0; }

template <class Op>
Tensor unary(const Tensor& x) {
  const Tensor y = x.clone();
  launch(kernels::unary<Op>, y, y, y.numel());
  return y;
}

template <class Op>
Tensor binary(const Tensor& a, const Tensor& b) {
  const Tensor y(a.shape(), a.dtype(), a.device());
  launch(kernels::binary<Op>, a, a.strides(), b, b.strides(), y, y.shape(), i64{a.dim()});
  return y;
}

// to[i, :] = from[index(i), :] for rows of one width.
template <class Index>
void copy_rows(const Tensor& from, const Tensor& to, Index index) {
  if (to.device() != Device::cpu) {
    std::vector<i64> rows;
    for (i64 i = 0; i < to.size(0); ++i) rows.push_back(index(i));
    const Tensor gathered(to.shape(), to.dtype(), to.device());
    launch(kernels::gather_rows, from.contiguous(), std::span<const i64>(rows), gathered, to.size(0), to.size(1));
    return to.copy_from(gathered);
  }
  dispatch(to.dtype(), [&]<class T>() {
    const T* source = from.data<T>();
    T* target = to.mutable_data<T>();
    const i64 width = to.size(1), source_step = stride(from), target_step = stride(to);
    for (i64 i = 0; i < to.size(0); ++i) {
      const T* row = source + index(i) * source_step;
      if (row != target + i * target_step)
        std::memcpy(target + i * target_step, row, static_cast<std::size_t>(width) * sizeof(T));
    }
  });
}

void check_ids(const std::vector<i64>& ids, i64 rows) {
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= rows)
      throw_error("[embedding] id {} at position {} is outside a table of {} rows", ids[i], i, rows);
}

nn::Cell cell_of(const Settings& settings) {
  if (settings.cell == "lstm") return nn::Cell::lstm;
  if (settings.cell == "rnn") return nn::Cell::rnn;
  return settings.gru_reset == "before" ? nn::Cell::gru_reset_before : nn::Cell::gru;
}

// The parameters by name; views, which the packing reads.
class Weights {
 public:
  explicit Weights(const Run& run) : parameters_(run.block.parameters()) {}
  Tensor operator()(const std::string& name) const {
    for (const Parameter* parameter : parameters_)
      if (parameter->name == name) return parameter->value;
    throw_error("[inference] the model has no parameter {}", name);
  }
  PackedLinear linear(const std::string& name, bool with_bias = true) const {
    return {(*this)(name + ".weight"), with_bias ? (*this)(name + ".bias") : Tensor()};
  }
  // A GRU's candidate needs W_hn h + b_hn by itself; elsewhere both biases are added to the same sum.
  Tensor input_bias(nn::Cell cell, const std::string& gru, const std::string& suffix) const {
    const Tensor bias_ih = (*this)(gru + ".bias_ih" + suffix);
    if (cell != nn::Cell::lstm && cell != nn::Cell::rnn) return bias_ih;
    const Tensor sum = bias_ih.clone(), bias_hh = (*this)(gru + ".bias_hh" + suffix);
    const i64 shape[] = {sum.numel()}, one[] = {1};
    launch(kernels::add_strided, 1.0, bias_hh, one, sum, one, shape, i64{1});
    return sum;
  }
  PackedCell cell(nn::Cell cell, const std::string& gru, const std::string& suffix) const {
    const bool in_the_input = cell == nn::Cell::lstm || cell == nn::Cell::rnn;
    return {cell, (*this)(gru + ".weight_hh" + suffix), in_the_input ? Tensor() : (*this)(gru + ".bias_hh" + suffix)};
  }

 private:
  const std::vector<Parameter*>& parameters_;
};

// Matrices of one width, one below the other.
Tensor stacked(const std::vector<Tensor>& parts) {
  if (parts.size() == 1) return parts[0];
  Dims shape = parts[0].shape();
  shape[0] = 0;
  for (const Tensor& part : parts) shape[0] += part.size(0);
  const Tensor whole(shape, parts[0].dtype(), parts[0].device());
  i64 at = 0;
  for (const Tensor& part : parts) {
    whole.slice(0, at, at + part.size(0)).copy_from(part);
    at += part.size(0);
  }
  return whole;
}

// Tables of words take at most so many bytes each.
constexpr i64 gates_memory = i64{256} << 20, readout_memory = i64{64} << 20;

}  // namespace

// ---- parts ----------------------------------------------------------------------------------------------------------

PackedLinear::PackedLinear(const Tensor& weight, const Tensor& bias)
    : in_(weight.size(1)),
      out_(weight.size(0)),
      bf16_(weight.dtype() == DType::f32 && float32_matmul_precision() == MatmulPrecision::medium),
      packed_({kernels::packed_size(out_, in_)}, weight.dtype(), weight.device()),
      bias_(bias.defined() ? bias.contiguous() : bias) {
  if (bf16_)
    launch(kernels::pack_linear_bf16, false, weight, stride(weight), packed_, out_, in_);
  else
    launch(kernels::pack_linear, weight, stride(weight), packed_, out_, in_);
}

void PackedLinear::operator()(const Tensor& x, const Tensor& y, bool accumulate) const {
  const auto multiply = [&](const auto& routine) {
    launch(routine, x, stride(x), packed_, bias_, accumulate, y, stride(y), x.size(0), out_, in_);
  };
  bf16_ ? multiply(kernels::packed_linear_bf16) : multiply(kernels::packed_linear);
}

Tensor PackedLinear::operator()(const Tensor& x) const {
  const Tensor y({x.size(0), out_}, x.dtype(), x.device());
  (*this)(x, y);
  return y;
}

WordTable::WordTable(const Tensor& embedding, const Tensor& weight, const Tensor& bias, i64 largest)
    : embedding_(embedding),
      product_(weight, bias),
      places_(static_cast<std::size_t>(embedding.size(0)), -1),
      most_(largest / (product_.out() * static_cast<i64>(size_of(embedding.dtype())))) {}

// Makes room for so many rows; false where that would be too much memory.
bool WordTable::reserve(i64 rows) {
  if (table_.defined() && rows <= table_.size(0)) return true;
  if (rows > most_) return false;
  const Tensor larger({std::min(most_, std::max<i64>(2 * rows, 64)), product_.out()}, embedding_.dtype(), embedding_.device());
  if (count_ > 0) rows_of(larger, 0, count_).copy_from(rows_of(table_, 0, count_));
  table_ = larger;
  return true;
}

Tensor WordTable::operator()(const std::vector<i64>& words) {
  check_ids(words, embedding_.size(0));
  const i64 rows = static_cast<i64>(words.size());
  std::vector<i64> fresh;
  for (const i64 word : words)
    if (i64& place = places_[static_cast<std::size_t>(word)]; place < 0) {
      place = count_ + static_cast<i64>(fresh.size());
      fresh.push_back(word);
    }
  Tensor made;  // the fresh words' rows
  if (!fresh.empty()) {
    const i64 count = static_cast<i64>(fresh.size());
    const Tensor embedded({count, embedding_.size(1)}, embedding_.dtype(), embedding_.device());
    launch(kernels::gather_rows, embedding_, std::span<const i64>(fresh), embedded, count, embedded.size(1));
    made = product_(embedded);
  }
  std::vector<i64> places(words.size());
  for (std::size_t i = 0; i < words.size(); ++i) places[i] = places_[static_cast<std::size_t>(words[i])];
  const Tensor result({rows, product_.out()}, embedding_.dtype(), embedding_.device());
  if (reserve(count_ + static_cast<i64>(fresh.size()))) {
    if (!fresh.empty()) rows_of(table_, count_, count_ + made.size(0)).copy_from(made);
    count_ += static_cast<i64>(fresh.size());
    launch(kernels::gather_rows, table_, std::span<const i64>(places), result, rows, product_.out());
    return result;
  }
  for (const i64 word : fresh) places_[static_cast<std::size_t>(word)] = -1;
  for (i64 i = 0; i < rows; ++i) {
    const i64 place = places[static_cast<std::size_t>(i)];
    copy_rows(place < count_ ? table_ : made, rows_of(result, i, i + 1),
              [&](i64) { return place < count_ ? place : place - count_; });
  }
  return result;
}

PackedCell::PackedCell(nn::Cell cell, const Tensor& weight_hh, const Tensor& bias_hh) : cell_(cell) {
  const i64 hidden = weight_hh.size(1);
  if (cell != nn::Cell::gru_reset_before) {
    hidden_ = PackedLinear(weight_hh, bias_hh);
    return;
  }
  hidden_ = PackedLinear(rows_of(weight_hh, 0, 2 * hidden), bias_hh.slice(0, 0, 2 * hidden));
  candidate_ = PackedLinear(rows_of(weight_hh, 2 * hidden, 3 * hidden), bias_hh.slice(0, 2 * hidden, 3 * hidden));
}

void PackedCell::step(const Tensor& gates, const Tensor& h, const Tensor& c, const Tensor& h_next, const Tensor& c_next,
                      const Tensor& y) const {
  const i64 rows = h.size(0), hidden = h.size(1);
  const Tensor none;
  const auto no_lengths = static_cast<const i64*>(nullptr);
  switch (cell_) {
    case nn::Cell::gru: {
      const Tensor from_h = hidden_(h);
      return launch(kernels::gru_gates, gates, stride(gates), from_h, stride(from_h), h, stride(h), h_next, stride(h_next), y,
                    stride(y), none, i64{0}, rows, hidden, no_lengths, i64{0});
    }
    case nn::Cell::lstm:
      hidden_(h, gates, true);
      return launch(kernels::lstm_gates, gates, stride(gates), none, i64{0}, c, stride(c), h_next, stride(h_next), c_next,
                    stride(c_next), y, stride(y), none, i64{0}, rows, hidden, no_lengths, i64{0});
    case nn::Cell::rnn:
      hidden_(h, gates, true);
      return launch(kernels::rnn_gates, gates, stride(gates), none, i64{0}, h_next, stride(h_next), y, stride(y), rows, hidden,
                    no_lengths, i64{0});
    case nn::Cell::gru_reset_before:
      break;
  }
  const Tensor input = columns(gates, 2 * hidden, 3 * hidden);
  hidden_(h, columns(gates, 0, 2 * hidden), true);
  const Tensor rz = unary<kernels::Sigmoid>(columns(gates, 0, 2 * hidden));
  const Tensor r = columns(rz, 0, hidden), z = columns(rz, hidden, 2 * hidden);
  candidate_(binary<kernels::Mul>(r, h), input, true);
  const Tensor n = unary<kernels::Tanh>(input);
  const Tensor next = binary<kernels::Add>(n, binary<kernels::Mul>(z, binary<kernels::Sub>(h, n)));  // (1 - z) n + z h
  h_next.copy_from(next);
  if (y.defined()) y.copy_from(next);
}

// ---- encoder --------------------------------------------------------------------------------------------------------

Inference::Inference(const Run& run)
    : cell_(cell_of(run.settings)),
      attention_(*nn::attention_kind(run.settings.attention)),
      hidden_(run.settings.hidden),
      directions_(run.settings.bidirectional ? 2 : 1),
      width_(run.settings.decoder_width()),
      context_(run.settings.context_width()),
      vocabulary_(run.target.size()) {
  const Weights weights(run);
  const std::string cell = nn::module_name(cell_);
  for (i64 l = 0; l < run.settings.layers; ++l) {
    const std::string gru = "encoder." + cell;
    std::vector<Tensor> inputs, biases;
    Layer& layer = layers_.emplace_back();
    for (i64 direction = 0; direction < directions_; ++direction) {
      const std::string suffix = fmt::format("_l{}{}", l, direction ? "_reverse" : "");
      inputs.push_back(weights(gru + ".weight_ih" + suffix));
      biases.push_back(weights.input_bias(cell_, gru, suffix));
      layer.directions.push_back(weights.cell(cell_, gru, suffix));
    }
    if (l == 0)
      layer.words = WordTable(weights("encoder.embedding.weight"), stacked(inputs), stacked(biases), gates_memory);
    else
      layer.inputs = PackedLinear(stacked(inputs), stacked(biases));
  }
  if (run.settings.bridge == "tanh-linear") {
    bridge_ = weights.linear("encoder.bridge");
    if (cell_ == nn::Cell::lstm) bridge_cell_ = weights.linear("encoder.bridge_cell");
  }

  const std::string attention = "decoder.attention.";
  switch (attention_) {
    case nn::AttentionKind::none:
    case nn::AttentionKind::mean:
    case nn::AttentionKind::luong_dot:
      break;
    case nn::AttentionKind::sdp:  // W_k's bias adds the same to all scores of a row
      look_ = {weights.linear(attention + "W_q"), weights.linear(attention + "W_k", false), {}, 0};
      look_.scale = 1 / std::sqrt(static_cast<double>(look_.query.out()));
      break;
    case nn::AttentionKind::bahdanau:
      look_ = {weights.linear(attention + "Wa"), weights.linear(attention + "Ua"), weights(attention + "Va.weight"), 1};
      break;
    case nn::AttentionKind::luong_general:
      look_.key = PackedLinear(weights(attention + "W"), {});
      break;
  }
  const std::string gru = "decoder." + cell;
  const Tensor inputs = weights(gru + ".weight_ih_l0");
  const std::string& tied = run.settings.tie_embeddings;
  embedding_ = weights(tied == "all" ? "encoder.embedding.weight" : "decoder.embedding.weight");
  const i64 words_end = run.settings.embedding;
  gates_.words = WordTable(embedding_, columns(inputs, 0, words_end), weights.input_bias(cell_, gru, "_l0"), gates_memory);
  if (context_ > 0) gates_.context = PackedLinear(columns(inputs, words_end, words_end + context_), {});
  decoder_ = weights.cell(cell_, gru, "_l0");

  const Tensor out = tied == "none" ? weights("decoder.out.weight") : embedding_, out_bias = weights("decoder.out.bias");
  const bool projected = run.settings.readout == "projected";
  if (run.settings.readout == "hidden") {
    from_state_ = {out, out_bias};
    return;
  }
  const Tensor read = projected ? weights("decoder.readout.weight") : out;  // of state, context, embedding
  const i64 context_end = width_ + context_;
  from_state_ = {columns(read, 0, width_), {}};
  if (context_ > 0) readout_.context = {columns(read, width_, context_end), {}};
  readout_.words = {embedding_, columns(read, context_end, read.size(1)),
                    projected ? weights("decoder.readout.bias") : out_bias, readout_memory};
  if (projected) out_ = {out, out_bias};
}

// The last layer's outputs (N, H x directions) of sources sorted by falling length, position by position: the sentences that
// are so long are the first of all, so each step is one block of rows. Leaves the last states in last_.
Tensor Inference::encode_layers(const std::vector<std::vector<i64>>& sorted, const std::vector<i64>& running) {
  const i64 batch = static_cast<i64>(sorted.size()), steps = static_cast<i64>(running.size());
  std::vector<i64> ids, begin{0};
  for (i64 t = 0; t < steps; ++t) {
    for (i64 b = 0; b < running[static_cast<std::size_t>(t)]; ++b)
      ids.push_back(sorted[static_cast<std::size_t>(b)][static_cast<std::size_t>(t)]);
    begin.push_back(static_cast<i64>(ids.size()));
  }
  const i64 gate_width = nn::gate_count(cell_) * hidden_, width = directions_ * hidden_;
  Tensor output;
  for (Layer& layer : layers_) {
    const Tensor gates = output.defined() ? layer.inputs(output) : layer.words(ids);
    output = Tensor({begin.back(), width}, gates.dtype(), gates.device());
    const auto start = [&] { return zeros({batch, width}, gates.dtype(), gates.device()); };
    last_ = {start(), cell_ == nn::Cell::lstm ? start() : Tensor()};
    for (i64 direction = 0; direction < directions_; ++direction) {
      const i64 from = direction * hidden_, to = from + hidden_;
      for (i64 i = 0; i < steps; ++i) {
        const std::size_t t = static_cast<std::size_t>(direction == 0 ? i : steps - 1 - i);
        const auto at = [&](const Tensor& x, i64 first, i64 end) {
          return columns(rows_of(x, begin[t], begin[t + 1]), first, end);
        };
        const Tensor h = columns(rows_of(last_.h, 0, running[t]), from, to);
        const Tensor c = last_.c.defined() ? columns(rows_of(last_.c, 0, running[t]), from, to) : Tensor();
        layer.directions[static_cast<std::size_t>(direction)].step(
            at(gates, direction * gate_width, (direction + 1) * gate_width), h, c, h, c, at(output, from, to));
      }
    }
  }
  return output;
}

Tensor Inference::bridged(const PackedLinear& bridge, const Tensor& last) const {
  return bridge.out() > 0 && last.defined() ? unary<kernels::Tanh>(bridge(last)) : last;
}

bool Inference::shares_pay(i64 length, i64 hypotheses) const { return 32 * length <= context_ * hypotheses; }

i64 Inference::position_bytes(bool shares) const {
  const i64 width = shares ? gates_.words.out() + readout_.words.out() : context_;
  return (width + look_.key.out()) * static_cast<i64>(size_of(embedding_.dtype()));
}

void Inference::encode(std::span<const Segment> kept, std::span<const std::vector<i64>> sources, bool shares) {
  if (!kept.empty() && shares != shares_) throw_error("[inference] positions with shares and without do not go together");
  shares_ = shares;
  std::vector<std::size_t> order(sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a].size() > sources[b].size(); });
  std::vector<std::vector<i64>> sorted;
  std::vector<i64> rank(sources.size());
  for (const std::size_t i : order) {
    rank[i] = static_cast<i64>(sorted.size());
    sorted.push_back(sources[i]);
  }
  const std::size_t longest = sorted.empty() ? 0 : sorted[0].size();
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i].empty()) throw_error("source row {} has length 0: it must be 1..{}", i, longest);
  std::vector<i64> running(longest), begin(longest);
  for (const auto& source : sorted)
    for (std::size_t t = 0; t < source.size(); ++t) ++running[t];
  for (std::size_t t = 1; t < longest; ++t) begin[t] = begin[t - 1] + running[t - 1];

  // The memory: the kept positions, then those of each new sentence, one after another.
  std::vector<i64> old, added;
  for (const Segment& segment : kept)
    for (i64 s = 0; s < segment.length; ++s) old.push_back(segment.first + s);
  for (std::size_t i = 0; i < sources.size(); ++i)
    for (std::size_t t = 0; t < sources[i].size(); ++t) added.push_back(begin[t] + rank[i]);
  const i64 kept_count = static_cast<i64>(old.size()), count = kept_count + static_cast<i64>(added.size());
  // In place where there is room and rows move towards the front, which is what they do in a search.
  const bool towards_front = std::is_sorted(old.begin(), old.end());
  const auto renew = [&](Tensor& memory, i64 width, const auto& fill) {
    const bool in_place = towards_front && memory.defined() && memory.size(0) >= count;
    const Tensor renewed = in_place ? memory : Tensor({count, width}, embedding_.dtype(), embedding_.device());
    if (kept_count > 0)
      copy_rows(memory, rows_of(renewed, 0, kept_count), [&](i64 i) { return old[static_cast<std::size_t>(i)]; });
    fill(rows_of(renewed, kept_count, count));
    memory = renewed;
  };
  const Tensor values({count - kept_count, directions_ * hidden_}, embedding_.dtype(), embedding_.device());  // the new ones
  if (!sources.empty()) {
    copy_rows(encode_layers(sorted, running), values, [&](i64 i) { return added[static_cast<std::size_t>(i)]; });
    const auto in_their_order = [&](const Tensor& states) {
      if (!states.defined()) return states;
      const Tensor ordered = empty_like(states);
      copy_rows(states, ordered, [&](i64 i) { return rank[static_cast<std::size_t>(i)]; });
      return ordered;
    };
    first_ = {in_their_order(bridged(bridge_, last_.h)), in_their_order(bridged(bridge_cell_, last_.c))};
  }
  if (context_ == 0) return;
  if (look_.key.out() > 0) renew(keys_, look_.key.out(), [&](const Tensor& keys) { look_.key(values, keys); });
  if (!shares || look_.key.out() == 0)
    renew(values_, context_, [&](const Tensor& kept_values) { kept_values.copy_from(values); });
  for (Input* input : {&gates_, &readout_})
    if (shares && input->context.out() > 0)
      renew(input->shares, input->context.out(), [&](const Tensor& made) { input->context(values, made); });
}

// ---- decoder --------------------------------------------------------------------------------------------------------

void Inference::arrange(std::span<const i64> from) {
  const i64 rows = static_cast<i64>(from.size());
  const auto arranged = [&](const Tensor& next, const Tensor& first) {
    const Tensor state({rows, width_}, embedding_.dtype(), embedding_.device());
    if (rows > 0 && state.device() != Device::cpu) {  // one gather, from both tables below each other
      std::vector<Tensor> tables;
      for (const Tensor& table : {next, first})
        if (table.defined()) tables.push_back(table);
      const i64 before = next.defined() ? next.size(0) : 0;
      copy_rows(stacked(tables), state, [&](i64 i) {
        const i64 source = from[static_cast<std::size_t>(i)];
        return source < 0 ? before - 1 - source : source;
      });
      return state;
    }
    for (i64 i = 0; i < rows; ++i) {
      const i64 source = from[static_cast<std::size_t>(i)];
      const Tensor& table = source < 0 ? first : next;
      copy_rows(table, rows_of(state, i, i + 1), [&](i64) { return source < 0 ? -1 - source : source; });
    }
    return state;
  };
  state_ = {arranged(next_.h, first_.h), cell_ == nn::Cell::lstm ? arranged(next_.c, first_.c) : Tensor()};
}

// The weights of one look at the source; what is seen is added to the inputs' shares of the gates and of the readout, if any.
Tensor Inference::look(std::span<const Segment> segments, const Tensor& gates, const Tensor& read) const {
  const i64 rows = gates.size(0);
  std::vector<i64> first, lengths;
  i64 longest = 0;
  for (const Segment& segment : segments) {
    first.push_back(segment.first);
    lengths.push_back(segment.length);
    longest = std::max(longest, segment.length);
  }
  const Tensor weights({rows, longest}, gates.dtype(), gates.device());
  const Tensor query = look_.query.out() > 0 ? look_.query(state_.h) : state_.h;
  const Tensor keys = attention_ == nn::AttentionKind::mean ? Tensor() : look_.key.out() > 0 ? keys_ : values_;
  launch(kernels::attend, query, stride(query), keys, look_.v, look_.scale, std::span<const i64>(first),
         std::span<const i64>(lengths), weights, stride(weights), rows, query.size(1));
  const auto mix = [&](const Tensor& values, bool accumulate, const Tensor& y) {
    launch(kernels::mix_rows, weights, stride(weights), values, stride(values), std::span<const i64>(first),
           std::span<const i64>(lengths), accumulate, y, stride(y), rows, y.size(1));
  };
  if (shares_) {
    mix(gates_.shares, true, gates);
    if (read.defined()) mix(readout_.shares, true, read);
    return weights;
  }
  const Tensor context({rows, context_}, gates.dtype(), gates.device());
  mix(values_, false, context);
  gates_.context(context, gates, true);
  if (read.defined()) readout_.context(context, read, true);
  return weights;
}

Inference::Step Inference::step(const std::vector<i64>& words, std::span<const Segment> segments) {
  const i64 rows = static_cast<i64>(words.size());
  const auto make = [&](const Dims& shape) { return Tensor(shape, embedding_.dtype(), embedding_.device()); };
  const bool hidden_alone = readout_.words.out() == 0;
  const Tensor gates = gates_.words(words);
  Tensor read = hidden_alone ? Tensor() : readout_.words(words);
  Step result;
  if (context_ > 0) result.weights = look(segments, gates, read);
  next_ = {make({rows, width_}), cell_ == nn::Cell::lstm ? make({rows, width_}) : Tensor()};
  decoder_.step(gates, state_.h, state_.c, next_.h, next_.c, {});
  if (hidden_alone)
    read = from_state_(next_.h);
  else
    from_state_(next_.h, read, true);
  result.logits = out_.out() > 0 ? out_(unary<kernels::Tanh>(read)) : read;
  return result;
}

}  // namespace seqgrad::seq2seq
