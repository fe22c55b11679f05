#include "service/crash_handler.h"

#include <cxxabi.h>
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

namespace grokd {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
constexpr int kMostFrames = 64;

// Only what POSIX allows in a signal handler: write, and no memory of the heap.
void say(std::string_view text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }

void say_number(unsigned long value, unsigned base) {
  char digits[24];
  std::size_t at = sizeof(digits);
  do {
    digits[--at] = "0123456789abcdef"[value % base];
    value /= base;
  } while (value > 0);
  say({digits + at, sizeof(digits) - at});
}

std::string_view name_of(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV, an invalid memory access";
    case SIGBUS:
      return "SIGBUS, memory that could not be read (a mapped file that shrank, or a bad disk)";
    case SIGILL:
      return "SIGILL, an instruction this processor does not have";
    case SIGFPE:
      return "SIGFPE, an arithmetic fault";
    default:
      return "SIGABRT, a broken invariant";
  }
}

extern "C" void on_crash(int signal, siginfo_t* info, void*) {
  static std::atomic<bool> busy = false;
  if (!busy.exchange(true)) {
    std::array<void*, kMostFrames> frames{};
    const int count = ::backtrace(frames.data(), kMostFrames);
    ::backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
    say("grokd " GROKD_VERSION ": died of ");
    say(name_of(signal));
    if (signal == SIGSEGV || signal == SIGBUS) {
      say(", address 0x");
      say_number(reinterpret_cast<unsigned long>(info->si_addr), 16);
    }
    say(", thread ");
    say_number(static_cast<unsigned long>(::gettid()), 10);
    say("; the stack is above (addr2line -Cfie grokd +OFFSET...)\n");
  }
  ::raise(signal);  // the action was taken away when it ran: this is the end
}

[[noreturn]] void on_terminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "grokd: an exception nobody caught: %s\n", error.what());
    } catch (...) {
      std::fprintf(stderr, "grokd: an exception nobody caught\n");
    }
  }
  std::abort();
}

/// A stack that overflowed cannot run a handler; the main thread gets another one.
void use_another_stack() {
  static std::array<char, 64 << 10> stack;
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  ::sigaltstack(&alternative, nullptr);
}

}  // namespace

void install_crash_handler() {
  std::array<void*, 1> frame{};
  ::backtrace(frame.data(), 1);  // loads what it needs now: not in the handler
  use_another_stack();
  struct sigaction action {};
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  for (const int signal : kSignals) ::sigaction(signal, &action, nullptr);
  std::set_terminate(on_terminate);
}

}  // namespace grokd
