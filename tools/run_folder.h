// Where a run is written: checked before hours of training, not after.
#pragma once

#include <memory>
#include <string>

#include "tensor/file_lock.h"

namespace seqgrad::tools {

bool holds_run(const std::string& folder);

// Error: something that is no folder, or one that nothing can be written to.
void check_writable(const std::string& folder);

// Makes the folder where there is none, and holds it for this process alone.
// Error: "runs/a is in use by process 1234 on HOST: wait for its end, or choose another --out"
std::unique_ptr<FileLock> lock_run(const std::string& folder);
// The same; null where another process holds it.
std::unique_ptr<FileLock> lock_if_free(const std::string& folder);

}  // namespace seqgrad::tools
