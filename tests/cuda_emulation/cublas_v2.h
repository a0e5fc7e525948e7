// The part of cuBLAS that kernels/ uses, on OpenBLAS: column-major, sizes and leading dimensions checked as cuBLAS does, every
// matrix held to its allocation. Not thread-safe.
#pragma once

#include <cstdint>

#include "tests/cuda_emulation/cuda_runtime.h"

enum cublasStatus_t { CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_INVALID_VALUE = 7 };
enum cublasOperation_t { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum cublasMath_t { CUBLAS_DEFAULT_MATH = 0, CUBLAS_PEDANTIC_MATH = 2, CUBLAS_TF32_TENSOR_OP_MATH = 3 };
enum cudaDataType { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
using cublasHandle_t = struct EmulatedCublas*;

const char* cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasCreate(cublasHandle_t* handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode);

#define SEQGRAD_EMULATED_GEMM(letter, T)                                                                                      \
  cublasStatus_t cublas##letter##gemm_64(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, \
                                         std::int64_t m, std::int64_t n, std::int64_t k, const T* alpha, const T* a,          \
                                         std::int64_t lda, const T* b, std::int64_t ldb, const T* beta, T* c,                 \
                                         std::int64_t ldc);                                                                   \
  cublasStatus_t cublas##letter##gemmStridedBatched_64(                                                                       \
      cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b, std::int64_t m, std::int64_t n,    \
      std::int64_t k, const T* alpha, const T* a, std::int64_t lda, long long stride_a, const T* b, std::int64_t ldb,         \
      long long stride_b, const T* beta, T* c, std::int64_t ldc, long long stride_c, std::int64_t batch);
SEQGRAD_EMULATED_GEMM(S, float)
SEQGRAD_EMULATED_GEMM(D, double)
#undef SEQGRAD_EMULATED_GEMM
// For a and b of bf16, c and sums of f32.
cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b,
                               std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha, const void* a,
                               cudaDataType a_type, std::int64_t lda, const void* b, cudaDataType b_type, std::int64_t ldb,
                               const void* beta, void* c, cudaDataType c_type, std::int64_t ldc, cublasComputeType_t sums,
                               cublasGemmAlgo_t algorithm);
