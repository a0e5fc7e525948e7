#include "tools/commands.h"
#include "tools/gradient_suite.h"

namespace seqgrad::tools {

void add_check_gradients(CLI::App& check) {
  make_gradient_suite(*add_command(check, "gradients", "compare every gradient with finite differences",
                                   "seqgrad check gradients --filter 'softmax*'"),
                      [](Cases& cases) {
                        add_autograd_cases(cases);
                        add_nn_cases(cases);
                        add_seq2seq_cases(cases);
                      });
}

}  // namespace seqgrad::tools
