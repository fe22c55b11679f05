#pragma once
// What the machine itself can do, measured beside every figure of a bench.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace grokd::bench {

/// Memory to read.
struct Block {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// Bytes a second of `threads` threads that only read the blocks once, each thread a share of every block.
double read_rate(std::span<const Block> blocks, int threads);

/// Reads a block over and over: the limit of whatever must read as many bytes.
class ReadSweep {
 public:
  /// A block of `bytes`, at least 1 MiB, on huge pages where there are any.
  ReadSweep(std::size_t bytes, int threads);
  ~ReadSweep();
  ReadSweep(const ReadSweep&) = delete;
  ReadSweep& operator=(const ReadSweep&) = delete;
  /// Bytes a second of at least one sweep and 256 MiB.
  double rate() const;

 private:
  std::size_t bytes_;
  int threads_;
  std::byte* data_;
};

/// Products a second of `threads` threads that only multiply bytes in registers (vpdpbusd); 0 without AVX-512
/// VNNI.
double vnni_peak(int threads);

/// On every core a thread that wakes four times a millisecond, before all others where the system allows it,
/// and notes how late: gaps in which the host ran something else.
class JitterMeter {
 public:
  using Clock = std::chrono::steady_clock;
  JitterMeter();
  ~JitterMeter();
  /// Seconds of lateness of all wakes.
  std::vector<double> stop();
  /// Seconds between two times in which a core was away for at least `kLeastGap`; two cores at once count
  /// once.
  double gaps_between(Clock::time_point from, Clock::time_point to) const;

 private:
  static constexpr double kLeastGap = 0.05e-3;
  struct Wake {
    Clock::time_point due, at;
  };
  struct Core {
    std::unique_ptr<Wake[]> wakes;  // in order of time
    std::atomic<std::size_t> count{0};
    std::thread thread;
  };
  void watch(int cpu, Core& core) const;

  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<Core>> cores_;
};

double median(std::vector<double> values);
/// Nearest-rank percentile, q in (0, 1].
double percentile(std::vector<double> values, double q);
/// Standard deviation over mean.
double variation(const std::vector<double>& values);

}  // namespace grokd::bench
