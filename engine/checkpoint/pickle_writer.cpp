#include "engine/checkpoint/pickle_writer.h"

#include <algorithm>
#include <cstring>

namespace grokd {
namespace {

// CPython: frames end once they hold this much, larger byte strings stay outside, and a frame of fewer than
// four bytes has no header.
constexpr std::size_t kFrameTarget = 64 * 1024;
constexpr std::size_t kFrameMinimum = 4;
constexpr std::size_t kPieceBytes = 4 << 20;

template <class T>
std::string little_endian(T value) {
  std::string text(sizeof(T), '\0');
  std::memcpy(text.data(), &value, sizeof(T));
  return text;
}

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

}  // namespace

PickleWriter::PickleWriter(const std::string& path) : file_(path) { file_.write(as_bytes("\x80\x04")); }

void PickleWriter::append(const void* data, std::size_t size) {
  const auto* first = static_cast<const std::byte*>(data);
  frame_.insert(frame_.end(), first, first + size);
}

void PickleWriter::op(std::string_view bytes) { append(bytes.data(), bytes.size()); }

void PickleWriter::begin_value() {
  if (frame_.size() >= kFrameTarget) end_frame();
}

void PickleWriter::end_frame() {
  if (frame_.size() >= kFrameMinimum) {
    file_.write(as_bytes("\x95" + little_endian<std::uint64_t>(frame_.size())));
  }
  file_.write(frame_);
  frame_.clear();
}

void PickleWriter::constant(std::string_view opcode) {
  begin_value();
  op(opcode);
}

void PickleWriter::integer(std::uint32_t value) {
  begin_value();
  if (value <= 0xff) return op("K" + little_endian(static_cast<std::uint8_t>(value)));
  if (value <= 0xffff) return op("M" + little_endian(static_cast<std::uint16_t>(value)));
  op("J" + little_endian(value));
}

void PickleWriter::minus_one() { constant("J\xff\xff\xff\xff"); }

bool PickleWriter::recall(const std::string& key) {
  const auto found = memo_.find(key);
  if (found == memo_.end()) return false;
  op("h" + little_endian(found->second));
  return true;
}

void PickleWriter::remember(std::string key) {
  memo_.emplace(std::move(key), static_cast<std::uint8_t>(memo_size_));
  memoize();
}

void PickleWriter::text(std::string_view value) {
  begin_value();
  std::string key = "text " + std::string(value);
  if (recall(key)) return;
  op("\x8c" + little_endian(static_cast<std::uint8_t>(value.size())) + std::string(value));
  remember(std::move(key));
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  begin_value();
  std::string key = "global " + std::string(module) + " " + std::string(name);
  if (recall(key)) return;
  text(module);
  text(name);
  op("\x93");
  remember(std::move(key));
}

void PickleWriter::short_bytes(std::string_view value) {
  begin_value();
  std::string key = "bytes " + std::string(value);
  if (recall(key)) return;
  op("C" + little_endian(static_cast<std::uint8_t>(value.size())) + std::string(value));
  remember(std::move(key));
}

void PickleWriter::bytes(std::uint64_t size, const FillBytes& fill) {
  begin_value();
  const std::string header = size <= 0xff         ? "C" + little_endian(static_cast<std::uint8_t>(size))
                             : size <= 0xffffffff ? "B" + little_endian(static_cast<std::uint32_t>(size))
                                                  : "\x8e" + little_endian(size);
  if (size >= kFrameTarget) {
    end_frame();
    file_.write(as_bytes(header));
    stream(size, fill);
  } else {
    op(header);
    const std::size_t start = frame_.size();
    frame_.resize(start + size);
    if (fill) fill(0, std::span(frame_).subspan(start));
  }
  memoize();
}

void PickleWriter::stream(std::uint64_t size, const FillBytes& fill) {
  if (!fill) return file_.skip(size);
  std::vector<std::byte> piece(std::min<std::uint64_t>(size, kPieceBytes));
  for (std::uint64_t offset = 0; offset < size; offset += piece.size()) {
    piece.resize(std::min<std::uint64_t>(size - offset, kPieceBytes));
    fill(offset, piece);
    file_.write(piece);
  }
}

void PickleWriter::tuple(std::size_t size) {
  op(size == 1 ? "\x85" : size == 2 ? "\x86" : size == 3 ? "\x87" : "t");
  memoize();
}

std::uint64_t PickleWriter::finish() {
  op(".");
  end_frame();
  file_.close();
  return file_.written();
}

}  // namespace grokd
