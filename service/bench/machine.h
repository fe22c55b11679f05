#pragma once
// What the machine itself can do, measured beside every figure of a bench.

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace grokd::bench {

/// Bytes a second that `threads` threads read from a block of this size (at least 1 MiB), best of several
/// sweeps.
double read_bandwidth(std::size_t bytes, int threads);

/// Wakes every millisecond and notes how late: gaps in which the host ran something else.
class JitterMeter {
 public:
  JitterMeter();
  ~JitterMeter();
  /// Seconds of lateness, in order of time.
  std::vector<double> stop();

 private:
  std::atomic<bool> stopping_{false};
  std::vector<double> late_;
  std::thread thread_;
};

double median(std::vector<double> values);
/// Nearest-rank percentile, q in (0, 1].
double percentile(std::vector<double> values, double q);

}  // namespace grokd::bench
