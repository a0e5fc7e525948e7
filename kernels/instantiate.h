// SEQGRAD_INSTANTIATE(softmax) after a routine's definition emits it for float and double with the signature of ops.def.
#pragma once

#define SEQGRAD_INSTANTIATE(name)             \
  template decltype(name<float>) name<float>; \
  template decltype(name<double>) name<double>;

// The four elementwise families, for every functor of elementwise.h.
#define SEQGRAD_INSTANTIATE_UNARY(Op, name) \
  SEQGRAD_INSTANTIATE_OP(unary, Op)         \
  SEQGRAD_INSTANTIATE_OP(unary_backward, Op)
#define SEQGRAD_INSTANTIATE_BINARY(Op, name) \
  SEQGRAD_INSTANTIATE_OP(binary, Op)         \
  SEQGRAD_INSTANTIATE_OP(binary_backward, Op)
#define SEQGRAD_INSTANTIATE_OP(family, Op)                \
  template decltype(family<Op, float>) family<Op, float>; \
  template decltype(family<Op, double>) family<Op, double>;
