// Everything that decides a training run, as the command line, a --config file and a run's config.toml name it (kebab-case).
// The list is for_each_setting(); options, reading, writing and checking all follow from it. Value type.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/types.h"

namespace seqgrad::seq2seq {

struct Settings {
  // model
  std::string attention = "sdp";        // none | mean | sdp | bahdanau | luong_dot | luong_general
  std::string cell = "gru";             // gru | lstm | rnn
  std::string gru_reset = "after";      // after | before
  std::string bridge = "tanh-linear";   // tanh-linear | none
  std::string readout = "deep";         // deep | hidden | projected
  std::string tie_embeddings = "none";  // none | decoder | all
  bool bidirectional = true;
  i64 embedding = 256;
  i64 hidden = 512;        // of the encoder, for each direction
  i64 decoder_hidden = 0;  // 0: as hidden
  i64 attention_dim = 0;   // 0: 64 for sdp, 512 for bahdanau
  i64 layers = 1;          // of the encoder
  double dropout = 0.5;
  // data
  std::string train_source = {}, train_target = {}, valid_source = {}, valid_target = {};
  std::string tokenizer = "whitespace";  // spm | words | whitespace
  bool lowercase = false;
  std::string spm_type = "unigram";  // unigram | bpe
  std::string spm_source_model = {}, spm_target_model = {};
  double character_coverage = 1;  // of spm
  double spm_alpha = 0;           // 0: training reads the best pieces, else ones drawn anew for each epoch
  i64 vocabulary_size = 0;        // tokens, the four specials among them; 0: no limit, or 8000 for spm
  i64 min_frequency = 2;          // not of spm
  bool shared_vocabulary = false;
  i64 max_length = 0;  // tokens; 0: no limit
  // training
  i64 batch = 128;
  i64 batch_tokens = 0;  // 0: batches of `batch` pairs
  i64 accumulate = 1;    // batches that make one step
  i64 epochs = 10;
  i64 max_steps = 0;    // 0: no limit
  double max_time = 0;  // seconds; 0: no limit
  double learning_rate = 1e-3;
  std::string schedule = "constant";  // constant | inverse-sqrt | plateau
  i64 warmup = 0;                     // steps
  double decay = 0.5;                 // of plateau
  i64 decay_patience = 1;             // of plateau: validations without a better one
  double min_learning_rate = 0;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;  // of Adam
  double clip = 1;
  double label_smoothing = 0;
  double word_dropout = 0;
  double output_dropout = 0;
  double teacher_forcing = 1;  // share of the decoder's inputs that are the reference's words, not its own
  // validation, and what is kept of it
  i64 validate_every = 0;                  // steps; 0: after each epoch
  std::string validate_by = "perplexity";  // perplexity | bleu
  i64 patience = 0;                        // validations without a better one before training ends; 0: never
  double ema = 0;                          // decay of the moving average that is validated and saved; 0: none
  i64 average = 0;                         // checkpoints whose mean is the model in the end; 0: none
  std::string average_of = "best";         // best | last
  i64 keep_best = 0, keep_last = 0;        // validations whose weights stay in the run's folder
  i64 checkpoint_every = 0;                // steps; 0: with each validation
  double checkpoint_seconds = 600;         // between checkpoints; 0: no limit
  bool stop_on_save_failure = false;
  bool detect_anomaly = false;
  i64 seed = 1;
  i64 threads = 0;                // 0: all cores
  std::string precision = "f32";  // f32 | f64 | bf16 | tf32

  i64 encoder_width() const { return hidden * (bidirectional ? 2 : 1); }
  i64 decoder_width() const { return decoder_hidden ? decoder_hidden : hidden; }
  i64 context_width() const { return attention == "none" ? 0 : encoder_width(); }
  // Of what the decoder gives the readout, and of what the output layer reads.
  i64 feature_width() const { return decoder_width() + (readout == "hidden" ? 0 : context_width() + embedding); }
  i64 readout_width() const { return readout == "projected" ? embedding : feature_width(); }
  i64 attention_width() const { return attention_dim ? attention_dim : attention == "bahdanau" ? 512 : 64; }
};

// f(name, value, help, allowed): allowed is "a|b|c" for names, "" for anything else.
template <class S, class F>
void for_each_setting(S& s, F&& f) {
  f("attention", s.attention, "how the decoder looks at the source", "none|mean|sdp|bahdanau|luong_dot|luong_general");
  f("cell", s.cell, "recurrent cell", "gru|lstm|rnn");
  f("gru-reset", s.gru_reset, "where a GRU's reset gate acts: after the matrix product, as in PyTorch, or before it",
    "after|before");
  f("bridge", s.bridge, "first decoder state: from the encoder's last states through tanh(linear), or copied",
    "tanh-linear|none");
  f("readout", s.readout,
    "what the output layer sees: state, context and embedding; the state alone; or tanh(linear) of all three, as wide as an "
    "embedding",
    "deep|hidden|projected");
  f("tie-embeddings", s.tie_embeddings,
    "one matrix for the target embeddings and the output layer, or for the source embeddings too (needs --shared-vocabulary); "
    "usually with --readout projected",
    "none|decoder|all");
  f("bidirectional", s.bidirectional, "encoder reads in both directions", "");
  f("embedding", s.embedding, "width of the word embeddings", "");
  f("hidden", s.hidden, "width of the encoder's state in each direction", "");
  f("decoder-hidden", s.decoder_hidden, "width of the decoder's state (0: as --hidden)", "");
  f("attention-dim", s.attention_dim, "width of the attention (0: 64 for sdp, 512 for bahdanau)", "");
  f("layers", s.layers, "layers of the encoder", "");
  f("dropout", s.dropout, "probability of dropping an embedding's entry", "");
  f("train-source", s.train_source, "training text, source side (plain or gzipped)", "");
  f("train-target", s.train_target, "training text, target side", "");
  f("valid-source", s.valid_source, "validation text, source side", "");
  f("valid-target", s.valid_target, "validation text, target side", "");
  f("tokenizer", s.tokenizer,
    "what a model counts in: SentencePiece's pieces of words, words and marks, or what whitespace separates",
    "spm|words|whitespace");
  f("lowercase", s.lowercase, "bring all text into lower case", "");
  f("spm-type", s.spm_type, "how SentencePiece's pieces are learnt", "unigram|bpe");
  f("spm-source-model", s.spm_source_model, "SentencePiece's model of the source side, instead of learning one", "");
  f("spm-target-model", s.spm_target_model, "the same of the target side", "");
  f("character-coverage", s.character_coverage, "share of the text's characters that SentencePiece writes; the rest is <unk>",
    "");
  f("spm-alpha", s.spm_alpha,
    "cut training's words into pieces anew in every epoch (0: never): of bpe the probability of leaving out a merge, as 0.1; "
    "of unigram the exponent of a cut's probability, as 0.2",
    "");
  f("vocabulary-size", s.vocabulary_size,
    "tokens of a vocabulary at most, or of spm exactly (0: no limit; of spm 8000, or fewer where the text has fewer)", "");
  f("min-frequency", s.min_frequency, "words seen less often are <unk>; not of spm", "");
  f("shared-vocabulary", s.shared_vocabulary, "one vocabulary for both sides", "");
  f("max-length", s.max_length, "leave out pairs of training and validation with more tokens on a side (0: none)", "");
  f("batch", s.batch, "sentence pairs in a batch", "");
  f("batch-tokens", s.batch_tokens,
    "tokens in a batch instead of pairs: its rows times its longest side, padding counted (0: --batch pairs)", "");
  f("accumulate", s.accumulate, "batches whose gradients make one step, as one batch so many times as large would", "");
  f("epochs", s.epochs, "passes over the training text", "");
  f("max-steps", s.max_steps, "stop after so many steps (0: no limit)", "");
  f("max-time", s.max_time, "stop after so many seconds of this command (0: no limit)", "");
  f("learning-rate", s.learning_rate, "Adam's step size", "");
  f("schedule", s.schedule,
    "learning rate over the steps: constant, falling with their inverse square root, or times --decay when validation stalls",
    "constant|inverse-sqrt|plateau");
  f("warmup", s.warmup, "steps over which the learning rate first rises from 0", "");
  f("decay", s.decay, "what plateau multiplies the learning rate by", "");
  f("decay-patience", s.decay_patience, "after how many validations without a better one", "");
  f("min-learning-rate", s.min_learning_rate, "no schedule goes below it", "");
  f("beta1", s.beta1, "decay of Adam's mean of the gradients", "");
  f("beta2", s.beta2, "decay of Adam's mean of their squares", "");
  f("eps", s.eps, "what Adam adds to the root of the latter", "");
  f("weight-decay", s.weight_decay, "AdamW's: the share of the weights that a step of learning rate 1 would take away", "");
  f("clip", s.clip, "largest norm of the gradient (0: no clipping)", "");
  f("label-smoothing", s.label_smoothing, "share of the target probability spread over the vocabulary", "");
  f("word-dropout", s.word_dropout, "probability of a word's being <unk> for the encoder and the decoder in training", "");
  f("output-dropout", s.output_dropout, "probability of dropping an entry of what the output layer sees", "");
  f("teacher-forcing", s.teacher_forcing,
    "share of training's decoder inputs that are the reference's words; the others are the model's own (scheduled sampling)",
    "");
  f("validate-every", s.validate_every, "steps between validations (0: one after each epoch)", "");
  f("validate-by", s.validate_by, "what makes a validation the best: perplexity, or BLEU of greedy translations",
    "perplexity|bleu");
  f("patience", s.patience, "stop after so many validations without a better one (0: never)", "");
  f("ema", s.ema, "validate and save a moving average of the weights with this decay, such as 0.999 (0: the weights)", "");
  f("average", s.average, "save in the end the mean of the weights of so many validations, if it is better (0: no mean)", "");
  f("average-of", s.average_of, "which validations those are", "best|last");
  f("keep-best", s.keep_best, "keep the weights of so many best validations in the run's folder kept/", "");
  f("keep-last", s.keep_last, "keep the weights of so many last ones", "");
  f("checkpoint-every", s.checkpoint_every, "steps between checkpoints, besides that of each validation (0: no others)", "");
  f("checkpoint-seconds", s.checkpoint_seconds, "seconds without a checkpoint after which one is written (0: any number)", "");
  f("stop-on-save-failure", s.stop_on_save_failure, "end training when something cannot be written, and do not try again", "");
  f("detect-anomaly", s.detect_anomaly,
    "name the first operation whose value or gradient is not finite, even where the loss is; slower", "");
  f("seed", s.seed, "of initial weights, dropout and data order", "");
  f("threads", s.threads, "threads (0: all cores)", "");
  f("precision", s.precision,
    "arithmetic; bf16 rounds the operands of training's large products, tf32 those of all on a CUDA device",
    "f32|f64|bf16|tf32");
}

// Whether a run that is resumed may have another value: what ends training, what is kept, and where the text lies. What is
// learnt from step to step depends on none of these; on threads it depends in the last bits.
bool may_change(std::string_view name);

// Error: the first setting outside its domain, with what is allowed.
void check_settings(const Settings& settings);

std::string to_toml(const Settings& settings);
// Every key must be a known setting of the right type. Error: "runs/a/config.toml:7: unknown setting 'hiden'".
Settings settings_from_toml(const std::string& path);
// The same on top of what is there: overwrites the settings that the file names, and leaves the others.
void apply_toml(Settings& settings, const std::string& path);

// A known experiment: settings that differ from the defaults, and which files of a data set it reads.
struct Preset {
  const char* name;
  const char* help;
  const char* fetched_by;               // the script that fetches its data
  const char* languages;                // "de|en|fr"
  const char *source, *target;          // of these, unless the user says otherwise
  const char *train_file, *valid_file;  // {} is the language
  void (*change)(Settings&);
};
const std::vector<Preset>& presets();
std::string preset_names();                          // "a|b"
const Preset& find_preset(const std::string& name);  // Error: an unknown one, with the known ones

// The preset's settings, with files in `folder`; from and to "" are its own languages.
// Errors: an unknown preset or language, with the known ones; no folder.
void apply_preset(Settings& settings, const std::string& preset, const std::string& folder, const std::string& from = "",
                  const std::string& to = "");

}  // namespace seqgrad::seq2seq
