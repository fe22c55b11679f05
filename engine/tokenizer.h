#pragma once
// Text <-> token ids. Immutable after loading; any thread.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tensor.h"

namespace grokd {

using kernels::TokenId;
struct ModelConfig;

/// Ids with a role, -1: the model has none. Padding, begin and unknown cannot be sampled.
struct SpecialTokens {
  TokenId pad = 0, bos = 1, eos = 2, unk = 3;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual int vocab_size() const = 0;
  /// As SentencePiece encodes: user-defined pieces inside the text are matched. No BOS is added.
  virtual std::vector<TokenId> encode(std::string_view text) const = 0;
  /// A stretch of message text: never yields control or user-defined marker ids; `at_start` adds the start
  /// space where the model does so.
  virtual std::vector<TokenId> encode_plain(std::string_view text, bool at_start) const = 0;
  /// The bytes the id adds to a text that goes before it ("▁" as a space, byte pieces as one byte, control
  /// ids as nothing).
  virtual std::string_view bytes(TokenId id) const = 0;
  /// The piece as written in the vocabulary ("▁of", "<0x0A>", "[EOS]").
  virtual std::string_view piece(TokenId id) const = 0;
  virtual bool is_control(TokenId id) const = 0;
  /// Text of ids from the start (start space dropped where the model adds one); broken UTF-8 becomes U+FFFD.
  virtual std::string decode(const std::vector<TokenId>& ids) const = 0;
  /// True where the model's encoder puts a space before the text.
  virtual bool adds_start_space() const = 0;
  /// The id of a piece, -1 if there is none.
  virtual TokenId find(std::string_view piece) const = 0;
  /// Longest piece in bytes: a text of more than context * this many bytes cannot fit.
  virtual int longest_piece_bytes() const = 0;
};

/// A SentencePiece model file. Throws ConfigError naming the file.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& file);

/// The tokenizer that config.json names. Throws ConfigError, also when its size is not the model's.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& model_dir, const ModelConfig& config);

}  // namespace grokd
