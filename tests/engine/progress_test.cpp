#include "engine/checkpoint/progress.h"

#include <doctest/doctest.h>

#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;

namespace {

/// What a sink writes while `steps` tensors are read without delay.
std::string written(bool terminal, std::size_t steps) {
  const TempFolder folder;
  std::FILE* out = std::fopen((folder / "out").c_str(), "w");
  const ProgressSink sink = progress_to(out, terminal, "loading");
  for (std::size_t i = 1; i <= steps; ++i) sink({i, steps, i * 1000, steps * 1000});
  std::fclose(out);
  return read_file(folder / "out");
}

}  // namespace

TEST_CASE("progress says tensors, bytes, rate and the time that is left") {
  CHECK(progress_line("loading", {120, 770, 49'500'000'000, 318'200'000'000}, 20) ==
        "loading 120/770 tensors, 49.5/318.2 GB, 2.48 GB/s, 1:49 left");
  CHECK(progress_line("writing", {1, 2, 1'000'000, 4'000'000'000}, 1) ==
        "writing 1/2 tensors, 0.0/4.0 GB, 0.00 GB/s, 1:06:39 left");
  CHECK(progress_line("loading", {50, 50, 11'000'000, 11'000'000}, 0.5) ==
        "loading 50/50 tensors, 11.0/11.0 MB, 0.02 GB/s, 0.5 s");
  CHECK(progress_line("loading", {0, 50, 0, 11'000'000}, 0) ==
        "loading 0/50 tensors, 0.0/11.0 MB, 0.00 GB/s");
}

TEST_CASE("without a terminal quick loading is one line") {
  const std::string text = written(false, 1000);
  CHECK(text.starts_with("loading 1000/1000 tensors"));
  CHECK(text.find('\n') == text.size() - 1);
  CHECK(text.find('\r') == std::string::npos);
}

TEST_CASE("on a terminal the line is redrawn and ended once") {
  const std::string text = written(true, 3);
  CHECK(text.starts_with("\r"));
  CHECK(text.find("loading 3/3 tensors") != std::string::npos);
  CHECK(text.find('\n') == text.size() - 1);
}
