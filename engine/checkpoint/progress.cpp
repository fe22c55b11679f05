#include "engine/checkpoint/progress.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <mutex>

namespace grokd {
namespace {

using Clock = std::chrono::steady_clock;

template <class... Args>
std::string format(const char* pattern, Args... args) {
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), pattern, args...);
  return text.data();
}

std::string time_text(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole < 3600) return format("%lld:%02lld", whole / 60, whole % 60);
  return format("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
}

class Printer {
 public:
  Printer(std::FILE* out, bool terminal, std::string verb)
      : out_(out), terminal_(terminal), verb_(std::move(verb)), interval_(terminal ? 0.1 : 1.0) {}

  void show(const LoadProgress& progress) {
    const std::lock_guard lock(mutex_);
    const auto now = Clock::now();
    const bool last = progress.tensors_done >= progress.tensors_total;
    if (!last && std::chrono::duration<double>(now - shown_).count() < interval_) return;
    shown_ = now;
    const std::string line =
        progress_line(verb_, progress, std::chrono::duration<double>(now - start_).count());
    if (terminal_) {
      std::fprintf(out_, "\r%s\x1b[K%s", line.c_str(), last ? "\n" : "");
    } else {
      std::fprintf(out_, "%s\n", line.c_str());
    }
    std::fflush(out_);
  }

 private:
  std::mutex mutex_;
  std::FILE* out_;
  bool terminal_;
  std::string verb_;
  double interval_;
  Clock::time_point start_ = Clock::now(), shown_ = start_;
};

}  // namespace

std::string progress_line(const std::string& verb, const LoadProgress& progress, double seconds) {
  const double unit = progress.bytes_total < 1'000'000'000 ? 1e6 : 1e9;
  const char* name = unit == 1e6 ? "MB" : "GB";
  const double rate = seconds > 0 ? static_cast<double>(progress.bytes_done) / seconds : 0;
  std::string line = verb + format(" %zu/%zu tensors, %.1f/%.1f %s, %.2f GB/s", progress.tensors_done,
                                   progress.tensors_total, static_cast<double>(progress.bytes_done) / unit,
                                   static_cast<double>(progress.bytes_total) / unit, name, rate / 1e9);
  if (progress.tensors_done >= progress.tensors_total) return line + format(", %.1f s", seconds);
  if (rate <= 0) return line;
  return line + ", " + time_text(static_cast<double>(progress.bytes_total - progress.bytes_done) / rate) +
         " left";
}

ProgressSink progress_to(std::FILE* out, bool terminal, std::string verb) {
  auto printer = std::make_shared<Printer>(out, terminal, std::move(verb));
  return [printer](const LoadProgress& progress) { printer->show(progress); };
}

ProgressSink print_progress(std::string verb) {
  return progress_to(stderr, ::isatty(::fileno(stderr)) == 1, std::move(verb));
}

}  // namespace grokd
