#include "kernels/bf16.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "kernels/kernels.h"

namespace seqgrad::kernels {
namespace {

struct Features {
  bool avx512_bf16 = false, amx = false;
};

Features reported() {
  u32 a = 0, b = 0, c = 0, d = 0;
  Features features;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) features.avx512_bf16 = (a >> 5 & 1) != 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) features.amx = (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0;
  return features;
}

// Linux gives a program the tiles' eight kilobytes of registers only when asked.
bool tiles_permitted() {
  constexpr long request_permission = 0x1023, tile_data = 18;
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

struct Choice {
  Bf16Way way;
  const char* reason;
};

Choice choose() {
  const char* asked = std::getenv("SEQGRAD_CPU");
  const std::string_view limit = asked ? asked : "amx";
  const Features cpu = reported();
  if (std::string_view(cpu_level()) != "avx512") return {Bf16Way::rounded_f32, "the routines in use are not AVX-512's"};
  if (limit == "avx512") return {Bf16Way::rounded_f32, "SEQGRAD_CPU asks for avx512"};
  if (!cpu.avx512_bf16) return {Bf16Way::rounded_f32, "CPUID reports neither avx512_bf16 nor amx_bf16"};
  if (limit == "avx512bf16") return {Bf16Way::avx512bf16, "SEQGRAD_CPU asks for avx512bf16"};
  if (!cpu.amx) return {Bf16Way::avx512bf16, "CPUID reports avx512_bf16, but not amx_bf16"};
  if (!tiles_permitted()) return {Bf16Way::avx512bf16, "the kernel does not let this program use AMX"};
  return {Bf16Way::amx, "CPUID reports amx_bf16 and the kernel lets this program use it"};
}

const Choice& choice() {
  static const Choice made = choose();
  return made;
}

}  // namespace

Bf16Way bf16_way() { return choice().way; }
const char* bf16_way_reason() { return choice().reason; }

const char* bf16_way_name() {
  switch (bf16_way()) {
    case Bf16Way::amx:
      return "AMX tiles";
    case Bf16Way::avx512bf16:
      return "AVX-512 BF16";
    default:
      return "f32 on rounded operands";
  }
}

}  // namespace seqgrad::kernels
