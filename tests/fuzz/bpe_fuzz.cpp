// Any text: the byte-pair encoder and the SentencePiece library give the same ids.

#include <sentencepiece_processor.h>

#include <cstdlib>

#include "engine/sentencepiece_bpe.h"

namespace {

struct Both {
  sentencepiece::SentencePieceProcessor library;
  std::unique_ptr<grokd::SentencePieceBpe> ours;
  Both() {
    if (!library.Load(GROKD_SOURCE_DIR "/tests/golden/tokenizers/spm512.model").ok()) std::abort();
    ours = grokd::make_sentencepiece_bpe(*grokd::read_sentencepiece_model(library.serialized_model_proto()));
    if (!ours) std::abort();
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Both both;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (both.ours->encode(text, true) != both.library.EncodeAsIds(text)) std::abort();
  return 0;
}
