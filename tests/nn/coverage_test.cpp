// No layer without a gradient-check case.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>

#include "autograd/cases.h"
#include "nn/attention.h"
#include "nn/recurrent.h"
#include "tensor/file.h"

using namespace seqgrad;

TEST_CASE("every layer and every kind of it has a case, beside its code") {
  const std::map<std::string, std::string> excused{
      {"averaging.cpp", "means of weights that training has left behind"},
      {"module.cpp", "memory and names of parameters"},
      {"optimizer.cpp", "takes gradients, and has none"},
      {"schedule.cpp", "numbers, not tensors"},
  };
  Cases cases;
  add_nn_cases(cases);
  const auto has_case = [&](const std::string& part) {
    return std::any_of(cases.all().begin(), cases.all().end(),
                       [&](const Case& one) { return one.name.find(part) != one.name.npos; });
  };
  int layers = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SEQGRAD_SOURCE "/nn")) {
    const std::string file = entry.path().filename().string(), source = read_file(entry.path().string());
    CAPTURE(file);
    if (file.ends_with(".cpp")) CHECK((source.find("\nSEQGRAD_CASES(") == source.npos) == excused.contains(file));
    const std::regex layer(R"(class (\w+) : public Module \{)");
    for (std::sregex_iterator match(source.begin(), source.end(), layer), end; match != end && file.ends_with(".h"); ++match) {
      const std::string name = (*match)[1];
      CAPTURE(name);
      CHECK(has_case(name));
      ++layers;
    }
  }
  CHECK(layers >= 7);
  CHECK(has_case("Dropout"));
  for (const auto kind : {nn::AttentionKind::mean, nn::AttentionKind::sdp, nn::AttentionKind::bahdanau,
                          nn::AttentionKind::luong_dot, nn::AttentionKind::luong_general})
    CHECK(has_case(std::string("Attention/") + nn::name_of(kind)));
  for (const char* cell : {"gru", "gru reset before", "lstm", "rnn"}) {
    CHECK(has_case(std::string("Recurrent/") + cell));
    CHECK(has_case(std::string("step/") + cell));
  }
}
