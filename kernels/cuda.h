// The CUDA device that the routines of cuda:: run on: its memory, its one stream, its options. Everything happens in the order
// in which it was asked for; only download() and synchronize() wait. Memory that is given back is kept for the next request,
// which may be served at once: what still runs on it runs before.
// One thread at a time, as with the routines themselves.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/types.h"

namespace seqgrad::kernels::cuda {

bool built();  // whether this build has CUDA's routines

// Error where there is nothing to compute on, one line: "no CUDA device can be used: REASON; use --device cpu".
void require();
std::string why_unavailable();  // "" where there is a usable device
std::string device_name();      // "NVIDIA H200, 132 multiprocessors, 139.8 GiB"

void* allocate(std::size_t bytes);  // null for 0
void release(void* data, std::size_t bytes);

// From the host's memory, which may be changed as soon as this returns.
void upload(void* to, const void* from, std::size_t bytes);
void download(void* to, const void* from, std::size_t bytes);
void copy(void* to, const void* from, std::size_t bytes);
void set_bytes(void* data, int value, std::size_t bytes);
void synchronize();

// Products of floats in TF32, with 10 bits of mantissa, on the tensor cores. Off at first.
void allow_tf32(bool allowed);

struct Statistics {
  std::size_t in_use = 0, cached = 0, peak = 0;  // bytes; peak of both together
  i64 waits = 0;                                 // how often the host waited for the device
};
Statistics statistics();

// Bytes kept for the next request (default: no limit). 0 gives all back to the device, and every allocation is one of its own,
// of exactly its size: so that a test sees what reaches beyond it.
void set_cache_limit(std::size_t bytes);

}  // namespace seqgrad::kernels::cuda
