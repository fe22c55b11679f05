#include "engine/checkpoint/pickle_graph.h"

#include <array>

namespace grokd {
namespace {

struct KnownGlobal {
  std::string_view module, name;
  PickleGlobal global;
};

constexpr std::array<KnownGlobal, 6> kGlobals = {{
    {"__main__", "QuantizedWeight8bit", PickleGlobal::quantized_weight},
    {"numpy.core.multiarray", "_reconstruct", PickleGlobal::reconstruct},
    {"numpy._core.multiarray", "_reconstruct", PickleGlobal::reconstruct},  // NumPy 2
    {"numpy", "ndarray", PickleGlobal::ndarray},
    {"numpy", "dtype", PickleGlobal::dtype},
    {"ml_dtypes", "bfloat16", PickleGlobal::bfloat16},
}};

struct KnownDtype {
  std::string_view code;
  DType type;
};

constexpr std::array<KnownDtype, 2> kDtypes = {{{"f4", DType::f32}, {"i1", DType::i8}}};

constexpr std::size_t kMaxDimensions = 8;

std::string quoted(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string out = "\"";
  for (const char c : text.substr(0, kLongest)) out += c >= ' ' && c <= '~' && c != '"' ? c : '?';
  return out + (text.size() > kLongest ? "...\"" : "\"");
}

/// Bytes of an array, or nothing when the product does not fit.
std::optional<std::size_t> byte_count(const std::vector<std::int64_t>& shape, DType type) {
  std::size_t count = dtype_bytes(type);
  for (const std::int64_t dim : shape) {
    if (__builtin_mul_overflow(count, static_cast<std::size_t>(dim), &count)) return std::nullopt;
  }
  return count;
}

}  // namespace

std::string_view kind_name(PickleKind kind) {
  static constexpr std::array<std::string_view, 11> kNames = {"None",
                                                              "a boolean",
                                                              "an integer",
                                                              "a string",
                                                              "bytes",
                                                              "a tuple",
                                                              "a dict",
                                                              "a class or function",
                                                              "a dtype",
                                                              "an array",
                                                              "a quantised weight"};
  return kNames[static_cast<std::size_t>(kind)];
}

PickleId PickleGraph::add(PickleNode node) {
  nodes_.push_back(std::move(node));
  return static_cast<PickleId>(nodes_.size() - 1);
}

const PickleNode& PickleGraph::expect(PickleId id, PickleKind kind) const {
  if (at(id).kind != kind) {
    throw PickleError("found " + std::string(kind_name(at(id).kind)) + " where " +
                      std::string(kind_name(kind)) + " belongs");
  }
  return at(id);
}

std::string_view PickleGraph::text(PickleId id) const {
  const auto bytes = expect(id, PickleKind::text).bytes;
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

PickleId PickleGraph::global(PickleId module, PickleId name) {
  for (const KnownGlobal& known : kGlobals) {
    if (known.module == text(module) && known.name == text(name)) {
      PickleNode node{.kind = PickleKind::global};
      node.global = known.global;
      return add(std::move(node));
    }
  }
  throw PickleError("refers to " + quoted(std::string(text(module)) + "." + std::string(text(name))) +
                    ", which no tensor needs; refused");
}

PickleId PickleGraph::call(PickleId callable, PickleId arguments) {
  const PickleGlobal function = expect(callable, PickleKind::global).global;
  const std::vector<PickleId> args = expect(arguments, PickleKind::tuple).items;
  if (function == PickleGlobal::dtype) return make_dtype(args);
  if (function != PickleGlobal::reconstruct)
    throw PickleError("calls something that is not a function of arrays");
  if (args.size() != 3 || expect(args[0], PickleKind::global).global != PickleGlobal::ndarray) {
    throw PickleError("rebuilds something that is not a numpy.ndarray");
  }
  return add({.kind = PickleKind::array});
}

PickleId PickleGraph::make_dtype(const std::vector<PickleId>& arguments) {
  if (arguments.empty() || arguments.size() > 3) throw PickleError("dtype with wrong arguments");
  PickleNode node{.kind = PickleKind::dtype};
  if (at(arguments[0]).kind == PickleKind::global) {
    if (at(arguments[0]).global != PickleGlobal::bfloat16) throw PickleError("dtype of an unknown class");
    node.dtype = DType::bf16;
    return add(std::move(node));
  }
  for (const KnownDtype& known : kDtypes) {
    if (known.code == text(arguments[0])) {
      node.dtype = known.type;
      return add(std::move(node));
    }
  }
  throw PickleError("dtype " + quoted(text(arguments[0])) + " is not float32, int8 or bfloat16");
}

PickleId PickleGraph::new_object(PickleId cls, PickleId arguments) {
  if (expect(cls, PickleKind::global).global != PickleGlobal::quantized_weight ||
      !expect(arguments, PickleKind::tuple).items.empty()) {
    throw PickleError("makes an object that is not a QuantizedWeight8bit");
  }
  return add({.kind = PickleKind::quantized});
}

void PickleGraph::set_items(PickleId dict, std::span<const PickleId> items) {
  expect(dict, PickleKind::dict);
  if (items.size() % 2 != 0) throw PickleError("dict with a key but no value");
  std::vector<PickleId>& stored = nodes_[dict].items;
  stored.insert(stored.end(), items.begin(), items.end());
}

void PickleGraph::set_state(PickleId object, PickleId state) {
  PickleNode& node = nodes_[object];
  if (node.built) throw PickleError("sets the state of " + std::string(kind_name(node.kind)) + " twice");
  switch (node.kind) {
    case PickleKind::dtype:
      set_dtype_state(node, state);
      break;
    case PickleKind::array:
      set_array_state(node, state);
      break;
    case PickleKind::quantized:
      set_quantized_state(node, state);
      break;
    default:
      throw PickleError("sets the state of " + std::string(kind_name(node.kind)));
  }
  node.built = true;
}

// (version, byte order, subarray, names, fields, item size, alignment, flags): only the byte order matters
// here.
void PickleGraph::set_dtype_state(PickleNode& dtype, PickleId state) {
  const auto& items = expect(state, PickleKind::tuple).items;
  if (items.size() < 8) throw PickleError("dtype with an incomplete state");
  const std::string_view order = text(items[1]);
  const bool little = order == "<" || (order == "|" && dtype_bytes(dtype.dtype) == 1);
  if (!little) throw PickleError("byte order " + quoted(order) + " is not little endian");
}

// (version, shape, dtype, is Fortran order, bytes)
void PickleGraph::set_array_state(PickleNode& array, PickleId state) {
  const auto& items = expect(state, PickleKind::tuple).items;
  if (items.size() != 5) throw PickleError("array with an incomplete state");
  if (expect(items[0], PickleKind::integer).integer != 1)
    throw PickleError("array state of an unknown version");
  const PickleNode& dtype = expect(items[2], PickleKind::dtype);
  if (!dtype.built) throw PickleError("array whose dtype has no byte order");
  if (expect(items[3], PickleKind::boolean).integer != 0) throw PickleError("array is in Fortran order");
  const auto& dims = expect(items[1], PickleKind::tuple).items;
  if (dims.size() > kMaxDimensions) throw PickleError("array with too many dimensions");
  std::vector<std::int64_t> shape;
  for (const PickleId dim : dims) {
    shape.push_back(expect(dim, PickleKind::integer).integer);
    if (shape.back() < 0) throw PickleError("array with a negative dimension");
  }
  const auto bytes = expect(items[4], PickleKind::bytes).bytes;
  if (byte_count(shape, dtype.dtype) != bytes.size()) {
    throw PickleError("array of " + std::to_string(bytes.size()) +
                      " bytes does not have the size of its shape");
  }
  array.array = {bytes.data(), dtype.dtype, std::move(shape)};
}

void PickleGraph::set_quantized_state(PickleNode& object, PickleId state) {
  const auto& items = expect(state, PickleKind::dict).items;
  std::optional<PickleId> weight, scales;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    const std::string_view key = text(items[i]);
    auto& slot = key == "weight" ? weight : scales;
    if ((key != "weight" && key != "scales") || slot) {
      throw PickleError("quantised weight with an unexpected member " + quoted(key));
    }
    slot = items[i + 1];
  }
  if (!weight || !scales) throw PickleError("quantised weight without weight or scales");
  object.weight = *weight;
  object.scales = *scales;
}

}  // namespace grokd
