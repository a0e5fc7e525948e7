#include "tests/cuda_emulation/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "tests/cuda_emulation/cuda_runtime.h"

namespace emulation {
namespace {

using Address = std::uintptr_t;

struct Allocation {
  char* pages;  // accessible while open: data with what is left of its first page
  std::size_t page_bytes;
  std::size_t bytes;
  int open = 0;
};

struct Copy {
  char* to;
  const void* from;
  std::size_t bytes;
};

struct Device {
  std::map<Address, Allocation> allocations;           // by the address of the data
  std::map<Address, std::size_t> pinned;               // of the host
  std::vector<Copy> late;                              // copies from pinned memory that are yet to be made
  std::vector<std::pair<char*, std::size_t>> retired;  // unmapped late, so that stale pointers fault
  std::size_t in_use = 0;
  std::int64_t count = 0;
  bool hidden = false;
};
Device& device() {
  static Device* instance = new Device;
  return *instance;
}

std::size_t page() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}
std::size_t round_up(std::size_t bytes) { return (bytes + page() - 1) / page() * page(); }

// A range of pages between two that nobody may touch.
char* map_pages(std::size_t bytes, int protection) {
  void* const all = mmap(nullptr, bytes + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  char* const pages = static_cast<char*>(all) + page();
  if (mprotect(pages, bytes, protection) != 0) return nullptr;
  return pages;
}

// The data ends where the pages end, as far as the alignment of its elements allows; every size is a multiple of that.
std::size_t alignment_of(std::size_t bytes) { return bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 1; }

std::map<Address, Allocation>::iterator find(const void* pointer) {
  auto& all = device().allocations;
  const Address at = reinterpret_cast<Address>(pointer);
  auto next = all.upper_bound(at);
  if (next == all.begin()) return all.end();
  --next;
  // The end of an allocation belongs to it: a pointer there is legal as long as nobody follows it.
  return at <= next->first + next->second.bytes ? next : all.end();
}

void open(Allocation& one) {
  if (one.open++ == 0) mprotect(one.pages, one.page_bytes, PROT_READ | PROT_WRITE);
}

// Says what was written in front of the data, if anything.
std::string close(Address data) {
  const auto found = device().allocations.find(data);
  if (found == device().allocations.end() || --found->second.open > 0) return "";
  Allocation& one = found->second;
  const char* const begin = reinterpret_cast<const char*>(data);
  const bool spilled =
      std::any_of(static_cast<const char*>(one.pages), begin, [](char c) { return c != static_cast<char>(poison); });
  if (spilled) std::memset(one.pages, poison, static_cast<std::size_t>(begin - one.pages));
  mprotect(one.pages, one.page_bytes, PROT_NONE);
  return spilled ? "something was written in front of a device allocation of " + std::to_string(one.bytes) + " bytes" : "";
}

std::string close_all(std::vector<Address>& opened) {
  std::string fault;
  for (const Address data : opened)
    if (const std::string one = close(data); !one.empty()) fault = one;
  opened.clear();
  return fault;
}

// Whether an address lies in memory that was given back not long ago.
bool is_retired(Address at) {
  const auto& all = device().retired;
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& one) { return at - reinterpret_cast<Address>(one.first) < one.second; });
}

bool mapped(Address address) {
  unsigned char resident;
  return mincore(reinterpret_cast<void*>(address / page() * page()), 1, &resident) == 0;
}

// Makes the late copies into an allocation, or all for null.
void make_copies(const void* to) {
  std::vector<Copy>& late = device().late;
  const auto wanted = [&](const Copy& copy) { return !to || find(copy.to) == find(to); };
  if (std::none_of(late.begin(), late.end(), wanted)) return;
  std::vector<Copy> now, later;
  for (const Copy& copy : late) (wanted(copy) ? now : later).push_back(copy);
  late = later;
  for (const Copy& copy : now) {
    const Opened target({{copy.to, copy.bytes}});
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

}  // namespace

void* allocate(std::size_t bytes) {
  const std::size_t page_bytes = round_up(std::max<std::size_t>(bytes, 1));
  char* const pages = map_pages(page_bytes, PROT_READ | PROT_WRITE);
  if (!pages) return nullptr;
  std::memset(pages, poison, page_bytes);
  mprotect(pages, page_bytes, PROT_NONE);
  const std::size_t alignment = alignment_of(bytes);
  char* const data = pages + (page_bytes - std::max(bytes, alignment)) / alignment * alignment;
  device().allocations[reinterpret_cast<Address>(data)] = {pages, page_bytes, bytes};
  device().in_use += bytes;
  ++device().count;
  return data;
}

void release(void* data) {
  const auto found = device().allocations.find(reinterpret_cast<Address>(data));
  if (found == device().allocations.end()) throw Fault("cudaFree() of what cudaMalloc() did not give");
  make_copies(data);
  Allocation& one = found->second;
  device().in_use -= one.bytes;
  // The pages stay reserved for a while, without memory, so that nothing new lies where a stale pointer leads.
  madvise(one.pages, one.page_bytes, MADV_DONTNEED);
  auto& retired = device().retired;
  retired.emplace_back(one.pages - page(), one.page_bytes + 2 * page());
  device().allocations.erase(found);
  if (retired.size() > 256) {
    munmap(retired.front().first, retired.front().second);
    retired.erase(retired.begin());
  }
}

bool on_device(const void* pointer) { return find(pointer) != device().allocations.end(); }

std::string describe(const void* address) {
  const auto& all = device().allocations;
  const Address at = reinterpret_cast<Address>(address);
  const auto next = all.upper_bound(at);
  const auto bytes_of = [](const auto& one) {
    return " a device allocation of " + std::to_string(one.second.bytes) + " bytes";
  };
  if (next != all.begin()) {
    const auto& before = *std::prev(next);
    const Address end = before.first + before.second.bytes;
    if (at < end) return "inside" + bytes_of(before) + " that the kernel got no pointer to";
    if (at - end < page()) return std::to_string(at - end) + " bytes behind" + bytes_of(before);
  }
  if (next != all.end() && next->first - at < 2 * page())
    return std::to_string(next->first - at) + " bytes in front of" + bytes_of(*next);
  if (is_retired(at)) return "in device memory that was freed";
  return "where there is no device memory";
}

char* fenced(std::size_t bytes) {
  const std::size_t page_bytes = round_up(std::max<std::size_t>(bytes, 1));
  char* const pages = map_pages(page_bytes, PROT_READ | PROT_WRITE);
  if (!pages) throw std::bad_alloc();
  return pages + (page_bytes - bytes) / 16 * 16;
}

Opened::Opened(const std::vector<Bytes>& ranges) {
  for (const Bytes& range : ranges) {
    const auto found = find(range.data);
    if (found == device().allocations.end()) throw Fault("not a pointer to device memory, but " + describe(range.data));
    const Address end = reinterpret_cast<Address>(range.data) + range.size;
    if (end > found->first + found->second.bytes)
      throw Fault("a range of " + std::to_string(range.size) + " bytes ends " +
                  std::to_string(end - found->first - found->second.bytes) + " bytes behind its device allocation");
  }
  for (const Bytes& range : ranges) {
    const auto found = find(range.data);
    opened_.push_back(found->first);
    open(found->second);
  }
}
Opened::~Opened() { close_all(opened_); }

OpenedFor::OpenedFor(const std::vector<std::vector<char>>& arguments) {
  for (const std::vector<char>& argument : arguments)
    for (std::size_t at = 0; at + sizeof(Address) <= argument.size(); at += sizeof(Address)) {
      Address word;
      std::memcpy(&word, argument.data() + at, sizeof word);
      const void* const pointer = reinterpret_cast<const void*>(word);
      if (const auto found = find(pointer); found != device().allocations.end()) {
        if (std::find(opened_.begin(), opened_.end(), found->first) == opened_.end()) opened_.push_back(found->first);
      } else if (word >= page() && word < Address{1} << 47 && !is_retired(word) && mapped(word)) {
        throw Fault("a kernel was given a pointer to the host's memory");
      }
    }
  for (const Address data : opened_) make_copies(reinterpret_cast<const void*>(data));
  for (const Address data : opened_) open(device().allocations.at(data));
}
OpenedFor::~OpenedFor() { close_all(opened_); }
void OpenedFor::close() {
  if (const std::string fault = close_all(opened_); !fault.empty()) throw Fault(fault);
}

void hide_device(bool hidden) { device().hidden = hidden; }

void count_memory(Counts& counts) {
  counts.allocations = device().count;
  counts.bytes = static_cast<std::int64_t>(device().in_use);
}

}  // namespace emulation

using namespace emulation;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
  }
  return "unknown error";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device().hidden ? 0 : 1;
  return device().hidden ? cudaErrorNoDevice : cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated device", std::size_t{8} << 30, 4, 8, 0};
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  *data = bytes ? allocate(bytes) : nullptr;
  return *data || !bytes ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* data) {
  if (data) release(data);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  if (!*data) return cudaErrorMemoryAllocation;
  device().pinned[reinterpret_cast<std::uintptr_t>(*data)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  make_copies(nullptr);
  device().pinned.erase(reinterpret_cast<std::uintptr_t>(data));
  std::free(data);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  if (bytes == 0) return cudaSuccess;
  const bool to_device = kind != cudaMemcpyDeviceToHost, from_device = kind != cudaMemcpyHostToDevice;
  if (on_device(to) != to_device || on_device(from) != from_device) return cudaErrorInvalidValue;
  if (to_device) make_copies(to);
  if (from_device) make_copies(from);
  std::vector<Bytes> ranges;
  if (to_device) ranges.push_back({to, bytes});
  if (from_device) ranges.push_back({from, bytes});
  const Opened open(ranges);
  const auto at = reinterpret_cast<std::uintptr_t>(from);
  const auto pin = device().pinned.upper_bound(at);
  const bool pinned = pin != device().pinned.begin() && at + bytes <= std::prev(pin)->first + std::prev(pin)->second;
  if (kind == cudaMemcpyHostToDevice && pinned)
    device().late.push_back({static_cast<char*>(to), from, bytes});
  else
    std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t) {
  if (bytes == 0) return cudaSuccess;
  if (!on_device(data)) return cudaErrorInvalidValue;
  make_copies(data);
  const Opened open({{data, bytes}});
  std::memset(data, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  static char one;
  *stream = reinterpret_cast<cudaStream_t>(&one);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  make_copies(nullptr);
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  static char one;
  *event = reinterpret_cast<cudaEvent_t>(&one);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  make_copies(nullptr);
  return cudaSuccess;
}
