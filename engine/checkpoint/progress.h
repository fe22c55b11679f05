#pragma once
// Shows on stderr how far loading (or writing) a checkpoint is.

#include <cstdio>
#include <string>

#include "engine/checkpoint/checkpoint.h"

namespace grokd {

/// "loading 120/770 tensors, 49.5/318.2 GB, 2.31 GB/s, 1:56 left"
std::string progress_line(const std::string& verb, const LoadProgress& progress, double seconds);

/// A sink for any thread. On a terminal one line that is redrawn, otherwise one line a second; the last line
/// is always written.
ProgressSink progress_to(std::FILE* out, bool terminal, std::string verb);
/// The same on stderr.
ProgressSink print_progress(std::string verb = "loading");

}  // namespace grokd
