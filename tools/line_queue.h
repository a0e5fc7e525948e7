// Lines of the standard input as they come: a thread reads ahead, so that a caller can have all the lines that are there
// without waiting for one that is not.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace seqgrad::tools {

class LineQueue {
 public:
  // Reads at most `ahead` lines ahead.
  explicit LineQueue(std::size_t ahead);

  // Waits for the next line, and gives with it those that are there already, in all at most `most`; false at the end.
  // An error of reading comes after the lines before it.
  bool take(std::vector<std::string>& lines, std::size_t most);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace seqgrad::tools
