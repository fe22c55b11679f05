#pragma once
// Last words: a crash leaves a stack trace and one readable line on stderr.

namespace grokd {

/// For the signals of a crash (SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT) and for exceptions that nobody
/// caught. The process then dies of the same signal, so that a core is still written and the manager sees the
/// cause.
void install_crash_handler();

}  // namespace grokd
