// Any text through the demo model's tokenizer: known ids, no control ids, and from plain text no markers.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "api/utf8.h"
#include "engine/tokenizer.h"

namespace {

const grokd::Tokenizer& tokenizer() {
  static const auto loaded = grokd::load_tokenizer(GROKD_SOURCE_DIR "/deploy/demo-model/tokenizer.model");
  return *loaded;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void check_ids(const std::vector<grokd::TokenId>& ids) {
  for (const grokd::TokenId id : ids) {
    require(id >= 0 && id < tokenizer().vocab_size());
    require(!tokenizer().is_control(id));
  }
  require(grokd::api::is_valid_utf8(tokenizer().decode(ids)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto ids = tokenizer().encode(text);
  check_ids(ids);
  const auto plain = tokenizer().encode_plain(text, size % 2 == 0);
  check_ids(plain);
  for (const char* marker : {"<|user|>", "<|assistant|>", "<|system|>"}) {
    const grokd::TokenId id = tokenizer().find(marker);
    for (const grokd::TokenId found : plain) require(id < 0 || found != id);
  }
  if (grokd::api::is_valid_utf8(text)) {
    const auto longest = static_cast<std::size_t>(tokenizer().longest_piece_bytes());
    require(ids.size() * longest >= text.size());
  }
  return 0;
}
