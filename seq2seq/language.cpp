#include "seq2seq/language.h"

#include <filesystem>
#include <typeinfo>

#include "kernels/error.h"
#include "seq2seq/random.h"
#include "seq2seq/spm.h"
#include "seq2seq/text.h"

namespace seqgrad::seq2seq {
namespace {

using SpmPointer = std::shared_ptr<const SpmTokenizer>;

TokenizerPointer learn(const Settings& settings, const std::vector<const std::vector<std::string>*>& texts,
                       const std::string& name) {
  const SpmOptions options{settings.spm_type, settings.vocabulary_size, settings.character_coverage};
  std::string model;
  if (settings.lowercase) {
    std::vector<std::string> lower;
    for (const std::vector<std::string>* text : texts)
      for (const std::string& line : *text) lower.push_back(lowercase(line));
    model = train_spm({&lower}, name, options);
  } else {
    model = train_spm(texts, name, options);
  }
  return std::make_shared<const SpmTokenizer>(std::move(model), name, settings.lowercase);
}

Vocabulary vocabulary_of(const Settings& settings, const Tokenizer& tokenizer,
                         const std::vector<std::vector<std::string>>& sentences) {
  if (const auto* spm = dynamic_cast<const SpmTokenizer*>(&tokenizer)) return spm->vocabulary();
  return Vocabulary::build(sentences, settings.min_frequency, settings.vocabulary_size);
}

}  // namespace

std::string path_in(const std::string& folder, const char* file) { return (std::filesystem::path(folder) / file).string(); }

Tokenizers make_tokenizers(const Settings& settings, const ParallelText& text) {
  if (settings.tokenizer != "spm") {
    const TokenizerPointer both =
        settings.tokenizer == "words" ? word_tokenizer(settings.lowercase) : whitespace_tokenizer(settings.lowercase);
    return {both, both};
  }
  const auto side = [&](const std::string& model, const std::vector<const std::vector<std::string>*>& texts,
                        const std::string& name) -> TokenizerPointer {
    return model.empty() ? learn(settings, texts, name) : SpmTokenizer::open(model, settings.lowercase);
  };
  if (settings.shared_vocabulary) {
    const TokenizerPointer both = side(settings.spm_source_model, {&text.source, &text.target},
                                       fmt::format("{} with {}", text.source_path, text.target_path));
    return {both, both};
  }
  return {side(settings.spm_source_model, {&text.source}, text.source_path),
          side(settings.spm_target_model, {&text.target}, text.target_path)};
}

Language make_language(const Settings& settings, const Tokenizers& tokenizers, const ParallelCorpus& corpus) {
  std::vector<std::vector<std::string>> source = source_sentences(corpus), target = target_sentences(corpus);
  if (settings.shared_vocabulary) {
    source.insert(source.end(), target.begin(), target.end());
    const Vocabulary both = vocabulary_of(settings, *tokenizers.source, source);
    return {tokenizers, both, both};
  }
  return {tokenizers, vocabulary_of(settings, *tokenizers.source, source), vocabulary_of(settings, *tokenizers.target, target)};
}

std::function<std::vector<EncodedPair>(u64 epoch)> draw_pairs(const Settings& settings, const ParallelText& text,
                                                              const std::vector<std::size_t>& lines, const Language& language) {
  std::vector<std::string> source, target;
  for (const std::size_t line : lines) {
    source.push_back(text.source[line]);
    target.push_back(text.target[line]);
  }
  return [=, alpha = settings.spm_alpha, seed = static_cast<u64>(settings.seed)](u64 epoch) {
    SplitMix64 seeds(seed, epoch);
    const auto side = [&](const TokenizerPointer& tokenizer, const std::vector<std::string>& sentences) {
      return dynamic_cast<const SpmTokenizer&>(*tokenizer).draw(sentences, alpha, seeds.next());
    };
    const auto sources = side(language.tokenizers.source, source), targets = side(language.tokenizers.target, target);
    std::vector<EncodedPair> pairs;
    pairs.reserve(sources.size());
    for (std::size_t i = 0; i < sources.size(); ++i)
      pairs.push_back(encode_pair({sources[i], targets[i]}, language.source, language.target));
    return pairs;
  };
}

bool same_tokenizers(const Tokenizers& a, const Tokenizers& b) {
  const auto same = [](const Tokenizer& x, const Tokenizer& y) {
    const auto *spm = dynamic_cast<const SpmTokenizer*>(&x), *other = dynamic_cast<const SpmTokenizer*>(&y);
    return typeid(x) == typeid(y) && x.lowercases() == y.lowercases() && (!spm || spm->model() == other->model());
  };
  return same(*a.source, *b.source) && same(*a.target, *b.target);
}

void save_language(const Language& language, const std::string& folder) {
  language.source.save(path_in(folder, "vocab.source"));
  language.target.save(path_in(folder, "vocab.target"));
  if (const auto spm = std::dynamic_pointer_cast<const SpmTokenizer>(language.tokenizers.source))
    spm->save(path_in(folder, "spm.source.model"));
  if (const auto spm = std::dynamic_pointer_cast<const SpmTokenizer>(language.tokenizers.target))
    spm->save(path_in(folder, "spm.target.model"));
}

Language load_language(const Settings& settings, const std::string& folder) {
  Language language;
  language.source = Vocabulary::load(path_in(folder, "vocab.source"));
  language.target = Vocabulary::load(path_in(folder, "vocab.target"));
  if (settings.shared_vocabulary && !(language.source == language.target))
    throw_error("{} and {} differ, but the run has one vocabulary for both", path_in(folder, "vocab.source"),
                path_in(folder, "vocab.target"));
  if (settings.tokenizer != "spm") {
    language.tokenizers = make_tokenizers(settings, {});
    return language;
  }
  const auto load = [&](const char* model, const char* words, const Vocabulary& vocabulary) {
    const SpmPointer spm = SpmTokenizer::load(path_in(folder, model), settings.lowercase);
    if (!(spm->vocabulary() == vocabulary))
      throw_error("{} and {} do not belong together", path_in(folder, model), path_in(folder, words));
    return spm;
  };
  language.tokenizers.source = load("spm.source.model", "vocab.source", language.source);
  language.tokenizers.target =
      settings.shared_vocabulary ? language.tokenizers.source : load("spm.target.model", "vocab.target", language.target);
  return language;
}

}  // namespace seqgrad::seq2seq
