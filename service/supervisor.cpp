#include "service/supervisor.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <utility>

namespace grokd {
namespace {

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// WATCHDOG_PID, where it is set, names the process that is meant.
bool watchdog_is_ours() {
  const std::string pid = environment("WATCHDOG_PID");
  return pid.empty() || pid == std::to_string(::getpid());
}

}  // namespace

Supervisor::Supervisor(std::string socket_name, std::chrono::microseconds watchdog)
    : socket_name_(std::move(socket_name)), watchdog_(watchdog) {
  const bool usable = socket_name_.size() > 1 && socket_name_.size() < sizeof(sockaddr_un::sun_path) &&
                      (socket_name_[0] == '/' || socket_name_[0] == '@');
  if (!usable) socket_name_.clear();
}

Supervisor Supervisor::from_environment() {
  const long long microseconds = watchdog_is_ours() ? std::atoll(environment("WATCHDOG_USEC")) : 0;
  return Supervisor(environment("NOTIFY_SOCKET"), std::chrono::microseconds(microseconds));
}

void Supervisor::tell(std::string_view state) const {
  if (!present()) return;
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_name_.copy(address.sun_path, socket_name_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_name_.size());
  // MSG_DONTWAIT: a manager whose queue is full must not hold up an io thread.
  (void)!::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                  reinterpret_cast<const sockaddr*>(&address), length);
  ::close(fd);
}

}  // namespace grokd
