// Tensors, training and search on a device: the real one or, in the program that is linked with it, the emulated one.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>

#include "kernels/cuda.h"
#include "kernels/kernels.h"
#include "seq2seq/benchmark.h"
#include "seq2seq/demo_corpus.h"
#include "seq2seq/search.h"
#include "seq2seq/train.h"
#include "tensor/matmul.h"
#include "tensor/random.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

class OnDevice {  // in its scope models are made on the device
 public:
  OnDevice() { set_default_device(Device::cuda); }
  ~OnDevice() { set_default_device(Device::cpu); }
};

// The memory cache as the program has it, in its scope.
class WithCache {
 public:
  WithCache() { kernels::cuda::set_cache_limit(std::size_t{1} << 30); }
  ~WithCache() { kernels::cuda::set_cache_limit(0); }
};

struct Task {
  explicit Task(const Settings& settings)
      : source(Vocabulary::build(source_sentences({corpus().train}))),
        target(Vocabulary::build(target_sentences({corpus().train}))),
        pairs(encode_pairs(corpus().train, source, target)),
        run(settings, source, target) {}

  static const DemoCorpus& corpus() {
    static const DemoCorpus made = make_demo_corpus(1, 60, 10, 10);
    return made;
  }

  std::vector<double> train(i64 steps, i64 batch) {
    const auto batches = make_batches(pair_lengths(pairs), batch, 1, 0);
    nn::Adam adam(run.block);
    Tape tape;
    std::vector<double> losses;
    for (i64 i = 0; i < steps; ++i) {
      const StepResult step =
          train_step(run, adam, tape, make_batch(pairs, batches[static_cast<std::size_t>(i) % batches.size()]), i);
      losses.push_back(step.loss);
      losses.push_back(step.gradient_norm);
    }
    return losses;
  }

  Vocabulary source, target;
  std::vector<EncodedPair> pairs;
  Run run;
};

Settings small(const std::string& attention) {
  Settings settings{.attention = attention, .embedding = 12, .hidden = 10, .attention_dim = 6, .dropout = 0.3};
  settings.learning_rate = 0.01;
  if (attention == "luong_dot") settings.decoder_hidden = settings.encoder_width();
  return settings;
}

}  // namespace

TEST_CASE("tensors move to the device and back, whole, in views and of every type") {
  const Tensor x = randn({3, 4}), y = x.to(Device::cuda);
  CHECK(y.device() == Device::cuda);
  CHECK(y.to_vector<float>() == x.to_vector<float>());
  CHECK(y.transpose(0, 1).to_vector<float>() == x.transpose(0, 1).to_vector<float>());
  CHECK(x.transpose(0, 1).to(Device::cuda).to_vector<float>() == x.transpose(0, 1).to_vector<float>());
  CHECK(y.slice(1, 1, 3).to(Device::cpu).to_vector<float>() == x.slice(1, 1, 3).to_vector<float>());
  CHECK(y.at({2, 1}) == x.at({2, 1}));
  CHECK(y.to(DType::f64).device() == Device::cuda);
  CHECK(y.to(DType::f64).to_vector<double>() == x.to(DType::f64).to_vector<double>());
  y.slice(1, 0, 2).fill(7);
  CHECK(y.at({1, 1}) == 7);
  CHECK(y.at({1, 2}) == x.at({1, 2}));
  y.slice(1, 0, 2).copy_from(x.slice(1, 2, 4));
  CHECK(y.at({2, 0}) == x.at({2, 2}));

  const Tensor ids = Tensor::from<i64>({5, -1, 1 << 30, 7}, {2, 2}), ids_there = ids.to(Device::cuda);
  CHECK(ids_there.transpose(0, 1).to_vector<i64>() == ids.transpose(0, 1).to_vector<i64>());
  CHECK(full({3}, 9, DType::i64, Device::cuda).to_vector<i64>() == std::vector<i64>{9, 9, 9});
  const Tensor flags = Tensor::from<bool>({true, false, true}, {3});
  CHECK(flags.to(Device::cuda).clone().to_vector<bool>() == flags.to_vector<bool>());
  CHECK(full({3}, 1, DType::boolean, Device::cuda).to_vector<bool>() == std::vector<bool>{true, true, true});
  CHECK(zeros({0, 3}, DType::f32, Device::cuda).to_vector<float>().empty());
}

TEST_CASE("what the host cannot read, and tensors on two devices, are errors") {
  const Tensor x = ones({2}, DType::f32, Device::cuda);
  CHECK(message_of([&] { x.data<float>(); }) ==
        "a tensor of shape (2) lies on cuda, where the host cannot read it: move it with to(Device::cpu)");
  CHECK(message_of([&] {
          matmul(ones({2, 2}, DType::f32, Device::cuda), ones({2, 2}));
        }) == "a tensor on cpu was used with one on cuda");
}

TEST_CASE("five training steps give the CPU's losses, dropout on") {
  for (const char* attention : {"mean", "sdp", "bahdanau", "luong_general"}) {
    INFO(attention);
    const std::vector<double> expected = Task(small(attention)).train(5, 12);
    const OnDevice there;
    Task task(small(attention));
    CHECK(task.run.block.values().device() == Device::cuda);
    const std::vector<double> losses = task.train(5, 12);
    double worst = 0;
    for (std::size_t i = 0; i < losses.size(); ++i)
      worst = std::max(worst, std::fabs(losses[i] - expected[i]) / std::max(1.0, std::fabs(expected[i])));
    CHECK(worst < 1e-5);
    std::printf("%s: losses and gradient norms of 5 steps deviate by at most %.1e\n", attention, worst);
  }
}

TEST_CASE("the other cells and readouts train alike") {
  for (const char* cell : {"lstm", "rnn", "gru"}) {
    INFO(cell);
    Settings settings = small("sdp");
    settings.cell = cell;
    if (settings.cell == "gru") settings.gru_reset = "before";
    settings.readout = "hidden";
    settings.teacher_forcing = 0.5;
    const std::vector<double> expected = Task(settings).train(2, 8);
    const OnDevice there;
    const std::vector<double> losses = Task(settings).train(2, 8);
    for (std::size_t i = 0; i < losses.size(); ++i) CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(1e-5));
  }
}

TEST_CASE("the same seed gives the same bits on the device") {
  const OnDevice there;
  CHECK(Task(small("bahdanau")).train(3, 8) == Task(small("bahdanau")).train(3, 8));
}

TEST_CASE("a model translates on the device as on the CPU, greedily and with a beam") {
  TemporaryFolder folder;
  for (const char* attention : {"none", "mean", "sdp", "bahdanau", "luong_dot"}) {
    INFO(attention);
    Task here(small(attention));
    here.train(8, 12);
    save_weights(here.run, folder / "model.safetensors");
    const OnDevice device;
    Task there(small(attention));
    load_weights(there.run, folder / "model.safetensors");
    CHECK(there.run.block.values().to_vector<float>() == here.run.block.values().to_vector<float>());
    std::vector<std::vector<i64>> sources;
    for (std::size_t i = 0; i < 7; ++i) sources.push_back(here.pairs[i].source);
    for (const i64 beam : {1, 3}) {
      const SearchOptions options{.batch = 4, .beam = beam, .nbest = beam};
      const auto expected = Translator(here.run, options).search(sources),
                 found = Translator(there.run, options).search(sources);
      for (std::size_t i = 0; i < sources.size(); ++i)
        for (std::size_t j = 0; j < expected[i].size(); ++j) {
          CHECK(found[i][j].ids == expected[i][j].ids);
          CHECK(found[i][j].score == doctest::Approx(expected[i][j].score).epsilon(1e-4));
          CHECK(found[i][j].weights.size() == expected[i][j].weights.size());
        }
    }
  }
}

TEST_CASE("in the steady state a training step asks the device for no memory, and waits once for its numbers") {
  const WithCache cache;
  const OnDevice there;
  Task task(small("sdp"));
  const Batch batch = make_batch(task.pairs, {0, 1, 2, 3, 4, 5});
  nn::Adam adam(task.run.block);
  Tape tape;
  for (i64 step = 0; step < 3; ++step) train_step(task.run, adam, tape, batch, step);
  const kernels::cuda::Statistics before = kernels::cuda::statistics();
  train_step(task.run, adam, tape, batch, 3);
  const kernels::cuda::Statistics after = kernels::cuda::statistics();
  CHECK(after.peak == before.peak);
  CHECK(after.waits - before.waits == 2);  // for the gradient's norm, and then for nothing, with the loss
}

TEST_CASE("products are in TF32 where that is asked for, and nowhere else") {
  const OnDevice there;
  const Tensor a = randn({40, 300}).to(Device::cuda), b = randn({300, 50}).to(Device::cuda);
  const std::vector<float> exact = matmul(a, b).to_vector<float>();
  std::vector<float> rounded;
  {
    const MatmulPrecisionScope scope(MatmulPrecision::high);
    rounded = matmul(a, b).to_vector<float>();
  }
  double worst = 0;
  for (std::size_t i = 0; i < exact.size(); ++i)
    worst = std::max(worst, std::fabs(static_cast<double>(rounded[i]) - static_cast<double>(exact[i])));
  CHECK(worst > 1e-4);
  CHECK(worst < 0.1);
  CHECK(matmul(a, b).to_vector<float>() == exact);

  Settings settings = small("sdp");
  const std::vector<double> expected = Task(settings).train(2, 12);
  settings.precision = "tf32";
  const std::vector<double> losses = Task(settings).train(2, 12);
  CHECK(losses != expected);
  for (std::size_t i = 0; i < losses.size(); ++i) CHECK(losses[i] == doctest::Approx(expected[i]).epsilon(0.01));
}

TEST_CASE("TF32 on the CPU is refused") {
  Settings settings = small("sdp");
  settings.precision = "tf32";
  CHECK(message_of([&] { Task(settings).train(1, 4); }) ==
        "precision is 'tf32', which only a CUDA device has: add --device cuda, or choose bf16 or f32");
}

TEST_CASE("uploads larger than the staging memory arrive whole") {
  std::vector<float> values(3 << 20);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 65521);
  const Tensor x = Tensor::from(values, {3, 1 << 20});
  CHECK(x.to(Device::cuda).to_vector<float>() == values);
  std::vector<Tensor> many;  // and many small ones in a row
  for (i64 i = 0; i < 3000; ++i) many.push_back(full({1000}, static_cast<double>(i)).to(Device::cuda));
  for (i64 i = 0; i < 3000; i += 7) CHECK(many[static_cast<std::size_t>(i)].at({999}) == static_cast<double>(i));
}
