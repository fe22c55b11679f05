#pragma once
// What a service manager is told (the protocol of sd_notify): ready, stopping, still alive.

#include <chrono>
#include <string>
#include <string_view>

namespace grokd {

class Supervisor {
 public:
  /// `socket_name`: a path, or "@name" of the abstract namespace; "" = nobody to tell.
  /// `watchdog`: how long the manager waits for a sign of life; 0 = it does not.
  Supervisor(std::string socket_name, std::chrono::microseconds watchdog);
  /// What NOTIFY_SOCKET and WATCHDOG_USEC say.
  static Supervisor from_environment();

  bool present() const { return !socket_name_.empty(); }
  std::chrono::microseconds watchdog() const { return watchdog_; }
  /// Lines like "READY=1". A manager that does not listen is no failure.
  void tell(std::string_view state) const;

 private:
  std::string socket_name_;
  std::chrono::microseconds watchdog_;
};

}  // namespace grokd
