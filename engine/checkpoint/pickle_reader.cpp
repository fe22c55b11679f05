#include "engine/checkpoint/pickle_reader.h"

#include <array>
#include <bit>
#include <cstdio>
#include <cstring>

namespace grokd {
namespace {

// A real tensor takes about 130 opcodes and a stack of 20.
constexpr std::size_t kMaxOpcodes = 2000;
constexpr std::size_t kMaxStack = 100;

static_assert(std::endian::native == std::endian::little, "pickles and arrays are read as little endian");

class Machine {
 public:
  Machine(std::span<const std::byte> data, PickleGraph& graph) : data_(data), graph_(graph) {}
  PickleId run();

 private:
  using Operation = void (Machine::*)();
  struct Opcode {
    unsigned char code;
    Operation operation;
  };
  static const std::array<Opcode, 29> kOpcodes;

  void step();

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> take(std::uint64_t count) {
    if (count > data_.size() - position_) {
      throw PickleError("needs " + std::to_string(count) + " more bytes but the file has only " +
                        std::to_string(data_.size() - position_));
    }
    const auto part = data_.subspan(position_, count);
    position_ += count;
    return part;
  }

  void push(PickleId id) {
    if (stack_.size() >= kMaxStack) throw PickleError("nests too deeply");
    stack_.push_back(id);
  }
  void push(PickleNode node) { push(graph_.add(std::move(node))); }
  /// Values below the innermost MARK are out of reach, as in Python.
  void require(std::size_t count) const {
    const std::size_t bottom = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() < bottom + count) throw PickleError("takes a value from an empty stack");
  }
  PickleId pop() {
    require(1);
    const PickleId top = stack_.back();
    stack_.pop_back();
    return top;
  }
  std::vector<PickleId> pop_last(std::size_t count) {
    require(count);
    std::vector<PickleId> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  std::vector<PickleId> pop_to_mark() {
    if (marks_.empty()) throw PickleError("closes a group that was never opened");
    std::vector<PickleId> items = pop_last(stack_.size() - marks_.back());
    marks_.pop_back();
    return items;
  }

  void push_integer(std::int64_t value) { push({.kind = PickleKind::integer, .integer = value}); }
  void push_boolean(bool value) { push({.kind = PickleKind::boolean, .integer = value}); }
  void push_view(PickleKind kind, std::uint64_t size) { push({.kind = kind, .bytes = take(size)}); }
  void push_tuple(std::vector<PickleId> items) {
    push({.kind = PickleKind::tuple, .items = std::move(items)});
  }
  void recall(std::size_t slot) {
    if (slot >= memo_.size()) throw PickleError("recalls a value that was never stored");
    push(memo_[slot]);
  }

  void proto() {
    const int version = number<std::uint8_t>();
    if (version != 4) throw PickleError("pickle protocol " + std::to_string(version) + ", only 4 is known");
  }
  void frame() {
    const auto length = number<std::uint64_t>();
    if (length > data_.size() - position_) throw PickleError("frame is longer than the file");
  }
  void stop() { stopped_ = true; }
  void mark() {
    if (marks_.size() >= kMaxStack) throw PickleError("nests too deeply");
    marks_.push_back(stack_.size());
  }
  void memoize() {
    require(1);
    memo_.push_back(stack_.back());
  }
  void binget() { recall(number<std::uint8_t>()); }
  void long_binget() { recall(number<std::uint32_t>()); }
  void none() { push({.kind = PickleKind::none}); }
  void new_true() { push_boolean(true); }
  void new_false() { push_boolean(false); }
  void binint1() { push_integer(number<std::uint8_t>()); }
  void binint2() { push_integer(number<std::uint16_t>()); }
  void binint() { push_integer(number<std::int32_t>()); }
  void short_binunicode() { push_view(PickleKind::text, number<std::uint8_t>()); }
  void binunicode() { push_view(PickleKind::text, number<std::uint32_t>()); }
  void short_binbytes() { push_view(PickleKind::bytes, number<std::uint8_t>()); }
  void binbytes() { push_view(PickleKind::bytes, number<std::uint32_t>()); }
  void binbytes8() { push_view(PickleKind::bytes, number<std::uint64_t>()); }
  void empty_tuple() { push_tuple({}); }
  void tuple1() { push_tuple(pop_last(1)); }
  void tuple2() { push_tuple(pop_last(2)); }
  void tuple3() { push_tuple(pop_last(3)); }
  void tuple() { push_tuple(pop_to_mark()); }
  void empty_dict() { push({.kind = PickleKind::dict}); }
  void set_items() {
    const std::vector<PickleId> items = pop_to_mark();
    require(1);
    graph_.set_items(stack_.back(), items);
  }
  void stack_global() {
    const PickleId name = pop();
    push(graph_.global(pop(), name));
  }
  void reduce() {
    const PickleId arguments = pop();
    push(graph_.call(pop(), arguments));
  }
  void new_object() {
    const PickleId arguments = pop();
    push(graph_.new_object(pop(), arguments));
  }
  void build() {
    const PickleId state = pop();
    require(1);
    graph_.set_state(stack_.back(), state);
  }

  std::span<const std::byte> data_;
  PickleGraph& graph_;
  std::size_t position_ = 0;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleId> memo_;
  bool stopped_ = false;
};

const std::array<Machine::Opcode, 29> Machine::kOpcodes = {{
    {0x80, &Machine::proto},      {0x95, &Machine::frame},
    {'.', &Machine::stop},        {'(', &Machine::mark},
    {0x94, &Machine::memoize},    {'h', &Machine::binget},
    {'j', &Machine::long_binget}, {'N', &Machine::none},
    {0x88, &Machine::new_true},   {0x89, &Machine::new_false},
    {'K', &Machine::binint1},     {'M', &Machine::binint2},
    {'J', &Machine::binint},      {0x8c, &Machine::short_binunicode},
    {'X', &Machine::binunicode},  {'C', &Machine::short_binbytes},
    {'B', &Machine::binbytes},    {0x8e, &Machine::binbytes8},
    {')', &Machine::empty_tuple}, {0x85, &Machine::tuple1},
    {0x86, &Machine::tuple2},     {0x87, &Machine::tuple3},
    {'t', &Machine::tuple},       {'}', &Machine::empty_dict},
    {'u', &Machine::set_items},   {0x93, &Machine::stack_global},
    {'R', &Machine::reduce},      {0x81, &Machine::new_object},
    {'b', &Machine::build},
}};

PickleId Machine::run() {
  std::size_t start = 0;
  try {
    for (std::size_t count = 0; !stopped_; ++count) {
      start = position_;
      if (count == kMaxOpcodes) throw PickleError("more opcodes than any tensor needs");
      step();
    }
    const PickleId result = pop();
    if (!stack_.empty() || !marks_.empty()) throw PickleError("leaves more than one value");
    if (position_ != data_.size()) {
      throw PickleError(std::to_string(data_.size() - position_) + " bytes follow the end of the pickle");
    }
    return result;
  } catch (const PickleError& error) {
    throw PickleError("byte " + std::to_string(start) + ": " + error.what());
  }
}

void Machine::step() {
  const bool first = position_ == 0;
  const auto code = number<std::uint8_t>();
  if (first && code != 0x80) throw PickleError("not a pickle of protocol 4");
  for (const Opcode& opcode : kOpcodes) {
    if (opcode.code == code) return (this->*opcode.operation)();
  }
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "0x%02x", code);
  throw PickleError("opcode " + std::string(text.data()) + ", which no tensor needs; refused");
}

}  // namespace

PickleId run_pickle(std::span<const std::byte> data, PickleGraph& graph) {
  return Machine(data, graph).run();
}

}  // namespace grokd
