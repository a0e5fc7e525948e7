#include "tensor/checksum.h"

#include <xxhash.h>

#include <new>

namespace seqgrad {

void Checksum::Free::operator()(XXH64_state_s* state) const { XXH64_freeState(state); }

Checksum::Checksum() : state_(XXH64_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH64_reset(state_.get(), 0);
}

void Checksum::add(const void* data, std::size_t bytes) {
  if (bytes > 0) XXH64_update(state_.get(), data, bytes);
}

u64 Checksum::value() const { return XXH64_digest(state_.get()); }

}  // namespace seqgrad
