// Where a run is written: checked before hours of training, not after.
#pragma once

#include <string>

namespace seqgrad::tools {

bool holds_run(const std::string& folder);

// Error: something that is no folder, or one that nothing can be written to.
void check_writable(const std::string& folder);

}  // namespace seqgrad::tools
