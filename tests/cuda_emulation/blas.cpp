#include <cblas.h>

#include <algorithm>

#include "tests/cuda_emulation/cublas_v2.h"

namespace {

cublasMath_t math = CUBLAS_DEFAULT_MATH;

using std::int64_t;

void gemm(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
          int ldb, float beta, float* c, int ldc) {
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

template <class T>
cublasStatus_t product(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int64_t m, int64_t n, int64_t k,
                       const T* alpha, const T* a, int64_t lda, int64_t stride_a, const T* b, int64_t ldb, int64_t stride_b,
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
  for (int64_t i = 0; i < batch; ++i)
    gemm(blas(ta), blas(tb), static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), *alpha, a + i * stride_a,
         static_cast<int>(lda), b + i * stride_b, static_cast<int>(ldb), *beta, c + i * stride_c, static_cast<int>(ldc));
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
