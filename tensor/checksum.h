// XXH64: a checksum of 64 bits that finds damage, at about the speed of memory. It is no protection against forgery.
// The algorithm is libxxhash's. Thread-safe on different objects.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "kernels/types.h"

struct XXH64_state_s;

namespace seqgrad {

class Checksum {
 public:
  Checksum();

  void add(const void* data, std::size_t bytes);  // in pieces of any size: only their sequence counts
  void add(std::string_view text) { add(text.data(), text.size()); }
  u64 value() const;  // of all that was added so far

 private:
  struct Free {
    void operator()(XXH64_state_s* state) const;
  };
  std::unique_ptr<XXH64_state_s, Free> state_;
};

}  // namespace seqgrad
