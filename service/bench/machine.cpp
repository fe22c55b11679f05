#include "service/bench/machine.h"

#include <pthread.h>
#include <sched.h>
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
constexpr std::size_t kPrefetchAhead = 4096;  // bytes

/// body(thread) on every thread; seconds until the last has ended.
template <class Body>
double seconds_of(int threads, const Body& body) {
  const auto start = Clock::now();
  {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back([&body, thread] { body(thread); });
    body(0);
  }
  return seconds_since(start);
}

constexpr long long kRounds = 20'000'000;

__attribute__((target("avx512f,avx512vnni"))) void multiply_registers() {
  long long rounds = kRounds;
  asm volatile(
      "1:\n"
      "vpdpbusd %%zmm30, %%zmm31, %%zmm0\n vpdpbusd %%zmm30, %%zmm31, %%zmm1\n"
      "vpdpbusd %%zmm30, %%zmm31, %%zmm2\n vpdpbusd %%zmm30, %%zmm31, %%zmm3\n"
      "vpdpbusd %%zmm30, %%zmm31, %%zmm4\n vpdpbusd %%zmm30, %%zmm31, %%zmm5\n"
      "vpdpbusd %%zmm30, %%zmm31, %%zmm6\n vpdpbusd %%zmm30, %%zmm31, %%zmm7\n"
      "vpdpbusd %%zmm30, %%zmm31, %%zmm8\n vpdpbusd %%zmm30, %%zmm31, %%zmm9\n"
      "vpdpbusd %%zmm30, %%zmm31, %%zmm10\n vpdpbusd %%zmm30, %%zmm31, %%zmm11\n"
      "dec %0\n jnz 1b\n"
      : "+r"(rounds)
      :
      : "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11",
        "cc");
}

}  // namespace

/// 32 sums, so that loads and not additions are the limit. bytes: a multiple of 256.
__attribute__((target_clones("avx512f", "avx2", "default"))) static std::uint64_t sum_of(
    const std::byte* data, std::size_t bytes) {
  std::uint64_t lanes[32] = {}, sum = 0;
  for (std::size_t i = 0; i < bytes; i += sizeof lanes) {
    for (std::size_t line = 0; line < sizeof lanes; line += 64) {
      __builtin_prefetch(data + i + kPrefetchAhead + line);
    }
    for (std::size_t j = 0; j < 32; ++j) {
      std::uint64_t word;
      std::memcpy(&word, data + i + 8 * j, sizeof word);
      lanes[j] += word;
    }
  }
  for (const std::uint64_t lane : lanes) sum += lane;
  return sum;
}

double read_rate(std::span<const Block> blocks, int threads) {
  std::atomic<std::uint64_t> sink{0};  // keeps the reads from being left out
  std::size_t read = 0;
  const auto share = [&](const Block& block) { return block.bytes / threads / 256 * 256; };
  for (const Block& block : blocks) read += share(block) * threads;
  const double seconds = seconds_of(threads, [&](int thread) {
    for (const Block& block : blocks) sink += sum_of(block.data + share(block) * thread, share(block));
  });
  return static_cast<double>(read) / seconds;
}

ReadSweep::ReadSweep(std::size_t bytes, int threads)
    : bytes_(std::max(bytes, kLeastBlock)), threads_(threads) {
  void* block = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) throw std::bad_alloc();
  ::madvise(block, bytes_, MADV_HUGEPAGE);
  std::memset(block, 1, bytes_);
  data_ = static_cast<std::byte*>(block);
}

ReadSweep::~ReadSweep() { ::munmap(data_, bytes_); }

double ReadSweep::rate() const {
  const std::vector<Block> sweeps(std::max<std::size_t>(1, kLeastRead / bytes_), Block{data_, bytes_});
  return read_rate(sweeps, threads_);
}

double vnni_peak(int threads) {
  if (!__builtin_cpu_supports("avx512vnni")) return 0;
  const double seconds = seconds_of(threads, [](int) { multiply_registers(); });
  return 12.0 * 64 * static_cast<double>(kRounds) * threads / seconds;
}

namespace {
constexpr std::size_t kMostWakes = std::size_t{1} << 22;  // 17 minutes
constexpr auto kPeriod = std::chrono::microseconds(250);

/// The calling thread runs on one core only and, where that is allowed, before all ordinary threads.
void own_core(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
  sched_param priority{};
  priority.sched_priority = 1;
  ::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &priority);
}

double seconds_of(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }
}  // namespace

JitterMeter::JitterMeter() {
  const int cpus = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (int cpu = 0; cpu < cpus; ++cpu) {
    cores_.push_back(std::make_unique<Core>());
    Core& core = *cores_.back();
    core.wakes = std::make_unique_for_overwrite<Wake[]>(kMostWakes);
    core.thread = std::thread([this, cpu, &core] { watch(cpu, core); });
  }
}

void JitterMeter::watch(int cpu, Core& core) const {
  own_core(cpu);
  while (!stopping_ && core.count < kMostWakes) {
    const auto due = Clock::now() + kPeriod;
    std::this_thread::sleep_until(due);
    core.wakes[core.count] = {due, Clock::now()};
    ++core.count;
  }
}

JitterMeter::~JitterMeter() { stop(); }

std::vector<double> JitterMeter::stop() {
  stopping_ = true;
  std::vector<double> late;
  for (const auto& core : cores_) {
    if (core->thread.joinable()) core->thread.join();
    for (std::size_t i = 0; i < core->count; ++i)
      late.push_back(seconds_of(core->wakes[i].at - core->wakes[i].due));
  }
  return late;
}

double JitterMeter::gaps_between(Clock::time_point from, Clock::time_point to) const {
  std::vector<Wake> gaps;
  for (const auto& core : cores_) {
    for (std::size_t i = core->count; i-- > 0 && core->wakes[i].at >= from;) {
      const Wake& wake = core->wakes[i];
      if (wake.due < to && seconds_of(wake.at - wake.due) >= kLeastGap) gaps.push_back(wake);
    }
  }
  std::sort(gaps.begin(), gaps.end(), [](const Wake& a, const Wake& b) { return a.due < b.due; });
  double sum = 0;
  for (const Wake& gap : gaps) {
    const auto begin = std::max(gap.due, from), end = std::min(gap.at, to);
    if (end > begin) sum += seconds_of(end - begin);
    from = std::max(from, end);
  }
  return sum;
}

double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

double percentile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

double variation(const std::vector<double>& values) {
  double sum = 0, squares = 0;
  for (const double v : values) sum += v, squares += v * v;
  const auto n = static_cast<double>(values.size());
  const double mean = sum / n;
  return std::sqrt(std::max(0.0, squares / n - mean * mean)) / mean;
}

}  // namespace grokd::bench
