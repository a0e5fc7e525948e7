#include <cblas.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "tests/cuda_emulation/cublas_v2.h"

namespace {

cublasMath_t math = CUBLAS_DEFAULT_MATH;

using std::int64_t;

// A column-major matrix with 11 bits of mantissa, ties to even.
std::vector<float> in_tf32(const float* x, int rows, int columns, int ld) {
  std::vector<float> rounded(static_cast<std::size_t>(ld) * static_cast<std::size_t>(columns));
  for (int j = 0; j < columns; ++j)
    for (int i = 0; i < rows; ++i) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[static_cast<std::ptrdiff_t>(j) * ld + i]);
      const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
      rounded[static_cast<std::size_t>(j) * static_cast<std::size_t>(ld) + static_cast<std::size_t>(i)] =
          std::bit_cast<float>(finite ? (bits + 0xfffu + ((bits >> 13) & 1)) & 0xffffe000u : bits);
    }
  return rounded;
}

void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
          int ldb, float beta, float* c, int ldc) {
  std::vector<float> a_rounded, b_rounded;
  if (math == CUBLAS_TF32_TENSOR_OP_MATH && k > 0) {
    a_rounded = ta == CblasNoTrans ? in_tf32(a, m, k, lda) : in_tf32(a, k, m, lda);
    b_rounded = tb == CblasNoTrans ? in_tf32(b, k, n, ldb) : in_tf32(b, n, k, ldb);
    a = a_rounded.data();
    b = b_rounded.data();
  }
  cblas_sgemm(CblasColMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha, const double* a, int lda, const double* b,
          int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasColMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// The bytes of `batch` matrices of so many rows and columns.
template <class T>
emulation::Bytes extent(const T* data, int64_t rows, int64_t columns, int64_t ld, int64_t stride, int64_t batch) {
  return {data, static_cast<std::size_t>((batch - 1) * stride + (columns - 1) * ld + rows) * sizeof(T)};
}

const float* widened(const float* x, std::size_t, std::vector<float>&) { return x; }
const double* widened(const double* x, std::size_t, std::vector<double>&) { return x; }
const float* widened(const std::uint16_t* x, std::size_t n, std::vector<float>& wide) {
  wide.resize(n);
  for (std::size_t i = 0; i < n; ++i) wide[i] = std::bit_cast<float>(std::uint32_t{x[i]} << 16);
  return wide.data();
}

// Of operands of type S, sums and c of type T.
template <class T, class S>
cublasStatus_t product(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n, int64_t k,
                       const T* alpha, const S* a, int64_t lda, int64_t stride_a, const S* b, int64_t ldb, int64_t stride_b,
                       const T* beta, T* c, int64_t ldc, int64_t stride_c, int64_t batch) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const int64_t a_rows = ta == CUBLAS_OP_N ? m : k, b_rows = tb == CUBLAS_OP_N ? k : n;
  const int64_t a_columns = ta == CUBLAS_OP_N ? k : m, b_columns = tb == CUBLAS_OP_N ? n : k;
  const auto least = [](int64_t rows) { return std::max<int64_t>(1, rows); };
  if (m < 0 || n < 0 || k < 0 || batch < 0 || lda < least(a_rows) || ldb < least(b_rows) || ldc < least(m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
  std::vector<emulation::Bytes> ranges = {extent(c, m, n, ldc, stride_c, batch)};
  if (k > 0) ranges.push_back(extent(a, a_rows, a_columns, lda, stride_a, batch));
  if (k > 0) ranges.push_back(extent(b, b_rows, b_columns, ldb, stride_b, batch));
  cudaStreamSynchronize(nullptr);  // copies that are still to be made
  const emulation::Opened open(ranges);
  const auto blas = [](cublasOperation_t t) { return t == CUBLAS_OP_N ? CblasNoTrans : CblasTrans; };
  for (int64_t i = 0; i < batch; ++i) {
    std::vector<T> a_wide, b_wide;
    const T* const a_i = k == 0 ? nullptr : widened(a + i * stride_a, ranges[1].size / sizeof(S), a_wide);
    const T* const b_i = k == 0 ? nullptr : widened(b + i * stride_b, ranges[2].size / sizeof(S), b_wide);
    gemm(blas(ta), blas(tb), static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), *alpha, a_i, static_cast<int>(lda),
         b_i, static_cast<int>(ldb), *beta, c + i * stride_c, static_cast<int>(ldc));
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
  }
  return "unknown";
}
cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  static char one;
  *handle = reinterpret_cast<cublasHandle_t>(&one);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t mode) {
  math = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetMathMode(cublasHandle_t, cublasMath_t* mode) {
  *mode = math;
  return CUBLAS_STATUS_SUCCESS;
}

#define SEQGRAD_EMULATED_GEMM(letter, T)                                                                                  \
  cublasStatus_t cublas##letter##gemm_64(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int64_t m,    \
                                         int64_t n, int64_t k, const T* alpha, const T* a, int64_t lda, const T* b,       \
                                         int64_t ldb, const T* beta, T* c, int64_t ldc) {                                 \
    return product(handle, ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);                             \
  }                                                                                                                       \
  cublasStatus_t cublas##letter##gemmStridedBatched_64(                                                                   \
      cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n, int64_t k, const T* alpha, \
      const T* a, int64_t lda, long long stride_a, const T* b, int64_t ldb, long long stride_b, const T* beta, T* c,      \
      int64_t ldc, long long stride_c, int64_t batch) {                                                                   \
    return product(handle, ta, tb, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c, batch);    \
  }
SEQGRAD_EMULATED_GEMM(S, float)
SEQGRAD_EMULATED_GEMM(D, double)
cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n,
                               int64_t k, const void* alpha, const void* a, cudaDataType a_type, int64_t lda, const void* b,
                               cudaDataType b_type, int64_t ldb, const void* beta, void* c, cudaDataType c_type, int64_t ldc,
                               cublasComputeType_t sums, cublasGemmAlgo_t) {
  if (a_type != CUDA_R_16BF || b_type != CUDA_R_16BF || c_type != CUDA_R_32F || sums != CUBLAS_COMPUTE_32F)
    return CUBLAS_STATUS_INVALID_VALUE;
  using Half = std::uint16_t;
  return product(handle, ta, tb, m, n, k, static_cast<const float*>(alpha), static_cast<const Half*>(a), lda, 0,
                 static_cast<const Half*>(b), ldb, 0, static_cast<const float*>(beta), static_cast<float*>(c), ldc, 0, 1);
}
