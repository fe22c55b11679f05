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

/// A block on huge pages, touched.
class Block {
 public:
  explicit Block(std::size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    ::madvise(data_, bytes, MADV_HUGEPAGE);
    std::memset(data_, 1, bytes);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { ::munmap(data_, bytes_); }
  const std::uint64_t* words() const { return static_cast<const std::uint64_t*>(data_); }

 private:
  void* data_;
  std::size_t bytes_;
};

/// Four independent sums, so that loads and not additions are the limit.
std::uint64_t sweep(const std::uint64_t* words, std::size_t count) {
  std::uint64_t a = 0, b = 0, c = 0, d = 0;
  for (std::size_t i = 0; i + 32 <= count; i += 32) {
    for (std::size_t j = 0; j < 8; ++j) {
      a += words[i + j];
      b += words[i + 8 + j];
      c += words[i + 16 + j];
      d += words[i + 24 + j];
    }
  }
  return a + b + c + d;
}

}  // namespace

double read_bandwidth(std::size_t bytes, int threads) {
  const std::size_t size = std::max<std::size_t>(bytes, 1 << 20);
  const Block block(size);
  const std::size_t share = size / sizeof(std::uint64_t) / threads;
  const int sweeps = static_cast<int>(std::max<std::size_t>(1, (std::size_t{1} << 30) / size));
  std::atomic<std::uint64_t> sink{0};
  double best = 0;
  for (int round = 0; round < 3; ++round) {
    const auto start = Clock::now();
    std::vector<std::jthread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        for (int s = 0; s < sweeps; ++s) sink += sweep(block.words() + t * share, share);
      });
    }
    workers.clear();
    best = std::max(
        best, static_cast<double>(share) * threads * sizeof(std::uint64_t) * sweeps / seconds_since(start));
  }
  return best;
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
