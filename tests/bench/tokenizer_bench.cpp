// Our byte-pair encoder beside the SentencePiece library: the same ids, and how fast.
//   tokenizer_bench MODEL FILE...   files are cut into texts of 4096 bytes, wherever that falls

#include <sentencepiece_processor.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "engine/sentencepiece_bpe.h"

namespace {

using Clock = std::chrono::steady_clock;

std::string read_file(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class Encode>
double bytes_a_second(const std::string& text, std::size_t length, const Encode& encode) {
  std::size_t done = 0, tokens = 0;
  const auto begin = Clock::now();
  double seconds = 0;
  for (std::size_t at = 0; seconds < 1.0; at = (at + length) % (text.size() - length)) {
    tokens += encode(std::string_view(text).substr(at, length)).size();
    done += length;
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return tokens == 0 ? 0 : static_cast<double>(done) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  sentencepiece::SentencePieceProcessor library;
  if (argc < 3 || !library.Load(argv[1]).ok()) return std::puts("tokenizer_bench MODEL FILE..."), 1;
  const auto model = grokd::read_sentencepiece_model(library.serialized_model_proto());
  const auto ours = model ? grokd::make_sentencepiece_bpe(*model) : nullptr;
  if (!ours) return std::puts("only the library can encode this model"), 1;
  std::size_t compared = 0, different = 0;
  std::string all;
  for (int i = 2; i < argc; ++i) {
    const std::string text = read_file(argv[i]);
    for (std::size_t at = 0; at < text.size(); at += 4096) {
      const std::string_view part = std::string_view(text).substr(at, 4096);
      different += ours->encode(part, true) != library.EncodeAsIds(part);
      compared += part.size();
    }
    if (all.size() < (std::size_t{64} << 20)) all += text;
  }
  std::printf("%.1f MB compared, %zu texts differ\n", static_cast<double>(compared) / 1e6, different);
  for (const std::size_t length : {1024, 8192, 32768}) {
    if (all.size() < 2 * length) break;
    const double fast =
        bytes_a_second(all, length, [&](std::string_view text) { return ours->encode(text, true); });
    const double slow =
        bytes_a_second(all, length, [&](std::string_view text) { return library.EncodeAsIds(text); });
    std::printf("%6zu bytes: %6.1f MB/s, SentencePiece %6.1f MB/s, %.2f times\n", length, fast / 1e6,
                slow / 1e6, fast / slow);
  }
  return different == 0 ? 0 : 1;
}
