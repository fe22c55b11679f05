#include "service/bench/machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace grokd::bench {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr std::size_t kLeastBlock = std::size_t{1} << 20;
constexpr std::size_t kLeastRead = std::size_t{256} << 20;
constexpr std::size_t kPrefetchAhead = 512;  // words

}  // namespace

/// Four independent sums, so that loads and not additions are the limit.
__attribute__((target_clones("avx512f", "avx2", "default"))) static std::uint64_t sweep(
    const std::uint64_t* words, std::size_t count) {
  std::uint64_t a[8] = {}, b[8] = {}, c[8] = {}, d[8] = {}, sum = 0;
  for (std::size_t i = 0; i + 32 <= count; i += 32) {
    for (std::size_t line = 0; line < 32; line += 8) __builtin_prefetch(words + i + kPrefetchAhead + line);
    for (std::size_t j = 0; j < 8; ++j) a[j] += words[i + j];
    for (std::size_t j = 0; j < 8; ++j) b[j] += words[i + 8 + j];
    for (std::size_t j = 0; j < 8; ++j) c[j] += words[i + 16 + j];
    for (std::size_t j = 0; j < 8; ++j) d[j] += words[i + 24 + j];
  }
  for (std::size_t j = 0; j < 8; ++j) sum += a[j] + b[j] + c[j] + d[j];
  return sum;
}

ReadSweep::ReadSweep(std::size_t bytes, int threads)
    : bytes_(std::max(bytes, kLeastBlock)), threads_(threads) {
  void* block = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) throw std::bad_alloc();
  ::madvise(block, bytes_, MADV_HUGEPAGE);
  std::memset(block, 1, bytes_);
  words_ = static_cast<std::uint64_t*>(block);
}

ReadSweep::~ReadSweep() { ::munmap(words_, bytes_); }

double ReadSweep::rate() const {
  const std::size_t share = bytes_ / sizeof(std::uint64_t) / threads_;
  const std::size_t sweeps = std::max<std::size_t>(1, kLeastRead / bytes_);
  std::atomic<std::uint64_t> sink{0};
  const auto start = Clock::now();
  {
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads_; ++t) {
      workers.emplace_back([&, t] {
        for (std::size_t s = 0; s < sweeps; ++s) sink += sweep(words_ + t * share, share);
      });
    }
  }
  return static_cast<double>(share * threads_ * sizeof(std::uint64_t) * sweeps) / seconds_since(start);
}

JitterMeter::JitterMeter() {
  late_.reserve(1 << 20);
  thread_ = std::thread([this] {
    constexpr auto kPeriod = std::chrono::milliseconds(1);
    while (!stopping_) {
      const auto start = Clock::now();
      std::this_thread::sleep_for(kPeriod);
      const double late = seconds_since(start) - std::chrono::duration<double>(kPeriod).count();
      if (late_.size() < late_.capacity()) late_.push_back(late);
    }
  });
}

JitterMeter::~JitterMeter() { stop(); }

std::vector<double> JitterMeter::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  return late_;
}

double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

double percentile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

}  // namespace grokd::bench
