// cuda::NAME in a build without CUDA: an error that says how to get it. Generated from ops.def.
#include "kernels/cuda.h"
#include "kernels/error.h"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace seqgrad::kernels {

bool cuda_available() { return false; }

namespace cuda {

[[noreturn]] static void refuse(const char* name) {
  throw_error("[{}] this build has no CUDA support: configure with -DSEQGRAD_CUDA=ON, or use --device cpu", name);
}

// Nothing below is reached before require(), which has refused.
bool built() { return false; }
std::string why_unavailable() { return "this build has no CUDA support (configure with -DSEQGRAD_CUDA=ON)"; }
void require() { throw_error("no CUDA device can be used: {}; use --device cpu", why_unavailable()); }
std::string device_name() { refuse("device_name"); }
void* allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  refuse("allocate");
}
void release(void* data, std::size_t bytes) {}
void upload(void* to, const void* from, std::size_t bytes) { refuse("upload"); }
void download(void* to, const void* from, std::size_t bytes) { refuse("download"); }
void copy(void* to, const void* from, std::size_t bytes) { refuse("copy"); }
void set_bytes(void* data, int value, std::size_t bytes) { refuse("set_bytes"); }
void synchronize() {}
void allow_tf32(bool allowed) { refuse("allow_tf32"); }
Statistics statistics() { return {}; }
void set_cache_limit(std::size_t bytes) {}

#define SEQGRAD_KERNEL(name, parameters, arguments) \
  template <class T>                                \
  void name parameters {                            \
    refuse(#name);                                  \
  }                                                 \
  SEQGRAD_INSTANTIATE(name)
#include "kernels/ops.def"
#undef SEQGRAD_KERNEL

template <class Op>
constexpr const char* name_of = "";
#define SEQGRAD_NAME(Op, name) \
  template <>                  \
  constexpr const char* name_of<Op> = #name;
SEQGRAD_UNARY_OPS(SEQGRAD_NAME)
SEQGRAD_BINARY_OPS(SEQGRAD_NAME)

template <class Op, class T>
void unary(const T* x, T* y, i64 n) {
  refuse(name_of<Op>);
}
template <class Op, class T>
void unary_backward(const T* x, const T* y, const T* dy, T* dx, i64 n) {
  refuse(name_of<Op>);
}
template <class Op, class T>
void binary(const T* a, const i64* a_strides, const T* b, const i64* b_strides, T* y, const i64* shape, i64 ndim) {
  refuse(name_of<Op>);
}
template <class Op, class T>
void binary_backward(const T* a, const i64* a_strides, const T* b, const i64* b_strides, const T* y, const T* dy, T* da, T* db,
                     const i64* shape, i64 ndim) {
  refuse(name_of<Op>);
}
SEQGRAD_UNARY_OPS(SEQGRAD_INSTANTIATE_UNARY)
SEQGRAD_BINARY_OPS(SEQGRAD_INSTANTIATE_BINARY)

}  // namespace cuda
}  // namespace seqgrad::kernels
