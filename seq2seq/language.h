// What a run knows of its two languages: how their text is cut into tokens, and which tokens there are. Made from the training
// text when training starts, kept in the run's folder. Thread-safe: functions without state.
#pragma once

#include <functional>
#include <string>

#include "seq2seq/corpus.h"
#include "seq2seq/settings.h"

namespace seqgrad::seq2seq {

struct Language {
  Tokenizers tokenizers;
  Vocabulary source, target;
};

// As the settings say; SentencePiece's models are learnt from the text or read from the files that the settings name.
Tokenizers make_tokenizers(const Settings& settings, const ParallelText& text);
// With the vocabularies of a tokenised text.
Language make_language(const Settings& settings, const Tokenizers& tokenizers, const ParallelCorpus& corpus);

// vocab.source, vocab.target and, for spm, spm.source.model and spm.target.model in the folder.
void save_language(const Language& language, const std::string& folder);
// Errors: "runs/a/spm.source.model and runs/a/vocab.source do not belong together";
// "runs/a/vocab.source and runs/a/vocab.target differ, but the run has one vocabulary for both".
Language load_language(const Settings& settings, const std::string& folder);

// For training's epochs: these lines of the text in the tokens that --spm-alpha draws. The tokenizers must be spm.
std::function<std::vector<EncodedPair>(u64 epoch)> draw_pairs(const Settings& settings, const ParallelText& text,
                                                              const std::vector<std::size_t>& lines, const Language& language);

// Whether any text has the same tokens by both.
bool same_tokenizers(const Tokenizers& a, const Tokenizers& b);

std::string path_in(const std::string& folder, const char* file);

}  // namespace seqgrad::seq2seq
