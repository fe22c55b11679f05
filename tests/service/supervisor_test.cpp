// What a service manager hears.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/temp_folder.h"
#include "tests/support/test_server.h"

using namespace grokd;
using namespace grokd::test;
using namespace std::chrono_literals;

namespace {

/// The manager's end of the protocol.
class Manager {
 public:
  explicit Manager(const std::string& name) : fd_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    if (::bind(fd_, reinterpret_cast<const sockaddr*>(&address), length) != 0)
      throw std::runtime_error("cannot bind " + name);
  }
  ~Manager() { ::close(fd_); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  /// The next message, "" if none comes in time.
  std::string next(int timeout_ms) {
    pollfd wait{fd_, POLLIN, 0};
    if (::poll(&wait, 1, timeout_ms) <= 0) return "";
    char text[256];
    const ssize_t got = ::recv(fd_, text, sizeof(text), 0);
    return {text, static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }
  bool hears(const std::string& wanted, int timeout_ms = 5'000) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    while (std::chrono::steady_clock::now() < end) {
      if (next(100).find(wanted) != std::string::npos) return true;
    }
    return false;
  }
  void forget() {
    while (!next(0).empty()) {
    }
  }

 private:
  int fd_;
};

}  // namespace

TEST_CASE("a service manager hears how loading goes, that the model is ready, and that the server stops") {
  TempFolder folder;
  std::string name;
  SUBCASE("a path") { name = folder / "notify"; }
  SUBCASE("an abstract name") { name = "@grokd-test-" + std::to_string(::getpid()); }
  Manager manager(name);
  ServerSetup setup{.load = false};
  TestServer server(setup);
  server.server().host().set_progress(0.25);
  server.server().report_to(Supervisor(name, 0us));
  CHECK(manager.hears("STATUS=Loading the model: 25 %"));
  manager.forget();
  server.load(setup);
  CHECK(manager.hears("READY=1"));
  server.server().drain();
  CHECK(manager.hears("STOPPING=1"));
}

TEST_CASE("the watchdog hears from an engine that works or idles, not from one that hangs") {
  TempFolder folder;
  Manager manager(folder / "notify");
  std::atomic<bool> hang = false;
  ServerSetup setup;
  setup.config.stall_limit = Milliseconds(50);
  setup.before_step = [&hang](const Batch&) {
    while (hang) std::this_thread::sleep_for(1ms);
  };
  TestServer server(setup);
  server.server().report_to(Supervisor(folder / "notify", 40ms));
  for (int i = 0; i < 5; ++i) CHECK(manager.hears("WATCHDOG=1"));
  hang = true;
  HttpClient client(server.port());
  client.send(request_text("POST", "/v1/completions", R"({"prompt":"Hi","max_tokens":2})"));
  CHECK(TestServer::eventually([&] { return get(server.port(), "/livez").status == 503; }));
  manager.forget();
  CHECK(!manager.hears("WATCHDOG=1", 300));
  hang = false;
  CHECK(manager.hears("WATCHDOG=1"));
  CHECK(client.read_reply().status == 200);
}

TEST_CASE("without a manager, or with a name that is none, nobody is told anything") {
  for (const char* name : {"", "/", "relative", "/no/such/socket"}) Supervisor(name, 0us).tell("READY=1");
  CHECK(!Supervisor("", 0us).present());
  CHECK(!Supervisor("relative", 0us).present());
  CHECK(!Supervisor(std::string(200, '/'), 0us).present());
}
