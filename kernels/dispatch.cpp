// cpu::NAME: the fastest routine that this machine runs, generated from ops.def. The level is decided once.
#include <cstdlib>
#include <string_view>

#include "kernels/error.h"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/threads.h"
#include "kernels/work.h"

namespace seqgrad::kernels {

namespace {

enum class Level { v1, avx2, avx512 };

Level detect() {
  const char* asked = std::getenv("SEQGRAD_CPU");
  const std::string_view limit = asked ? asked : "avx512";
  if (limit == "v1") return Level::v1;
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (has_avx2 && has_avx512 && limit != "avx2") return Level::avx512;
  return has_avx2 ? Level::avx2 : Level::v1;
}

Level level() {
  static const Level decided = [] {
    compute_alone_after_fork();
    return detect();
  }();
  return decided;
}

}  // namespace

const char* cpu_level() {
  switch (level()) {
    case Level::avx512:
      return "avx512";
    case Level::avx2:
      return "avx2";
    default:
      return "v1";
  }
}

void throw_out_of_memory(u64 bytes, const char* what) { throw_error("out of memory: {} bytes for {}", bytes, what); }

#define SEQGRAD_BY_LEVEL(...)     \
  switch (level()) {              \
    case Level::avx512:           \
      return avx512::__VA_ARGS__; \
    case Level::avx2:             \
      return avx2::__VA_ARGS__;   \
    default:                      \
      return v1::__VA_ARGS__;     \
  }

// Makes the call. One that a profile watches leaves the straight way, which costs the others a load and a branch.
#define SEQGRAD_CALL(name, work, ...)              \
  if (profiling()) [[unlikely]] {                  \
    return [=]() __attribute__((noinline, cold)) { \
      const ProfileScope scope(name, work);        \
      SEQGRAD_BY_LEVEL(__VA_ARGS__)                \
    }                                              \
    ();                                            \
  }                                                \
  SEQGRAD_BY_LEVEL(__VA_ARGS__)

template <class Op>
struct NamesOf;
#define SEQGRAD_NAMES(Op, name)                                                  \
  template <>                                                                    \
  struct NamesOf<Op> {                                                           \
    static constexpr const char *forward = #name, *backward = #name "_backward"; \
  };
SEQGRAD_UNARY_OPS(SEQGRAD_NAMES)
SEQGRAD_BINARY_OPS(SEQGRAD_NAMES)

namespace cpu {

#define SEQGRAD_UNWRAP(...) __VA_ARGS__
#define SEQGRAD_KERNEL(name, parameters, arguments)                                             \
  template <class T>                                                                            \
  void name parameters {                                                                        \
    SEQGRAD_CALL(#name, work_of(routine::name(), SEQGRAD_UNWRAP arguments), name<T> arguments); \
  }                                                                                             \
  SEQGRAD_INSTANTIATE(name)
#include "kernels/ops.def"
#undef SEQGRAD_KERNEL

template <class Op, class T>
void unary(const T* x, T* y, i64 n) {
  SEQGRAD_CALL(NamesOf<Op>::forward, unary_work<T>(n), unary<Op>(x, y, n));
}
template <class Op, class T>
void unary_backward(const T* x, const T* y, const T* dy, T* dx, i64 n) {
  SEQGRAD_CALL(NamesOf<Op>::backward, unary_backward_work<T>(n), unary_backward<Op>(x, y, dy, dx, n));
}
template <class Op, class T>
void binary(const T* a, const i64* a_strides, const T* b, const i64* b_strides, T* y, const i64* shape, i64 ndim) {
  SEQGRAD_CALL(NamesOf<Op>::forward, binary_work<T>(a_strides, b_strides, shape, ndim),
               binary<Op>(a, a_strides, b, b_strides, y, shape, ndim));
}
template <class Op, class T>
void binary_backward(const T* a, const i64* a_strides, const T* b, const i64* b_strides, const T* y, const T* dy, T* da, T* db,
                     const i64* shape, i64 ndim) {
  SEQGRAD_CALL(NamesOf<Op>::backward, binary_backward_work(da, db, shape, ndim),
               binary_backward<Op>(a, a_strides, b, b_strides, y, dy, da, db, shape, ndim));
}
SEQGRAD_UNARY_OPS(SEQGRAD_INSTANTIATE_UNARY)
SEQGRAD_BINARY_OPS(SEQGRAD_INSTANTIATE_BINARY)

}  // namespace cpu
}  // namespace seqgrad::kernels
