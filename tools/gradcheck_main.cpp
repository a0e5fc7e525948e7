// main() for a program of gradient checks: link seqgrad::gradcheck_main and declare the cases with SEQGRAD_GRADCHECK_CASES
// (autograd/cases.h). The program has the options and reports of `seqgrad check gradients`.
#include <filesystem>

#include "tools/gradient_suite.h"
#include "tools/program.h"

int main(int count, char** arguments) {
  const std::string name = count > 0 ? std::filesystem::path(arguments[0]).filename().string() : "gradcheck";
  return seqgrad::tools::run_program(name, "Compares gradients with finite differences.", "seqgrad " SEQGRAD_VERSION, count,
                                     arguments, [&](CLI::App& program) {
                                       program.footer("Example: " + name + " --filter 'a*' --junit results.xml");
                                       seqgrad::tools::make_gradient_suite(program, seqgrad::add_registered_cases);
                                     });
}
