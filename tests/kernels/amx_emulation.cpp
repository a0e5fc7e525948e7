// The AMX product itself, with its instructions emulated: what surrounds them (packing, blocks, edges) is then tested on any
// CPU that has AVX-512 BF16, which packs.
#define SEQGRAD_LEVEL emulated_amx
#define SEQGRAD_AMX_EMULATION "tests/kernels/amx_tiles.h"
#include "kernels/gemm_bf16_amx.cpp"
