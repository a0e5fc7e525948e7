// Where training stands, in a file: enough to go on as if it had never stopped. Not for use by two threads at once.
#pragma once

#include <string>
#include <vector>

#include "nn/averaging.h"
#include "nn/optimizer.h"
#include "nn/schedule.h"
#include "seq2seq/run.h"

namespace seqgrad::seq2seq {

// Weights of a validation that stay in the run's folder: kept/step-STEP.safetensors.
struct Kept {
  i64 step = 0;
  double score = 0;  // the validation's perplexity or BLEU

  bool operator==(const Kept&) const = default;
};

// No times are in it, so that the same training writes the same file.
struct Progress {
  i64 epoch = 0;                      // finished epochs
  i64 step = 0;                       // optimiser steps taken
  i64 batch = 0;                      // of them in the epoch under way: the place in the data
  i64 validated = 0;                  // the step of the last validation
  i64 best_step = 0, best_epoch = 0;  // 0: none yet
  double best_score = 0;              // its perplexity or BLEU
  i64 stalled = 0;                    // validations since then
  nn::Plateau plateau = {};
  // Sums since the last validation.
  double loss = 0, gradient_norm = 0;
  i64 tokens = 0, steps = 0;
  std::vector<Kept> kept = {};  // by step
  i64 threads = 0;              // of the process that wrote it; 0: not known

  bool operator==(const Progress&) const = default;
};

// Of all training and validation pairs: a checkpoint's place in the data means these and no others.
std::string checksum_of(const std::vector<EncodedPair>& train, const std::vector<EncodedPair>& valid);

// average: null where there is none. data: checksum_of the pairs.
void save_checkpoint(const Run& run, const nn::Adam& adam, const nn::MovingAverage* average, const Progress& progress,
                     const std::string& data, const std::string& path);
// Error: a checkpoint of other settings, words or text, or damaged. Only where the damage lies inside its numbers are weights
// and moments changed by then. Formats 1 and 2, which earlier versions wrote, hold no checksums: they are taken as they are.
Progress load_checkpoint(Run& run, nn::Adam& adam, nn::MovingAverage* average, const std::string& data,
                         const std::string& path);

std::string kept_path(const std::string& folder, i64 step);
// Removes the files of kept weights that are not among these.
void remove_other_kept(const std::string& folder, const std::vector<Kept>& kept);

}  // namespace seqgrad::seq2seq
