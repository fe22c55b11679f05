#pragma once
// The few values that a tensor's pickle may hold, and what its objects mean. Nothing here can run code.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/checkpoint.h"

namespace grokd {

/// A pickle that is damaged or holds anything but one tensor; the message does not name the file.
class PickleError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The only names a pickle may refer to.
enum class PickleGlobal { quantized_weight, reconstruct, ndarray, dtype, bfloat16 };

enum class PickleKind { none, boolean, integer, text, bytes, tuple, dict, global, dtype, array, quantized };

using PickleId = std::uint32_t;

struct PickleNode {
  PickleKind kind = PickleKind::none;
  std::int64_t integer = 0;               // integer, boolean
  std::span<const std::byte> bytes = {};  // text, bytes: inside the file
  PickleGlobal global{};                  // global
  std::vector<PickleId> items = {};       // tuple; dict: key, value, key, value ...
  bool built = false;                     // dtype, array, quantized: has its state
  DType dtype{};                          // dtype
  TensorView array = {};                  // array
  PickleId weight = 0, scales = 0;        // quantized
};

/// Owns the values by number, so that a value may be used in many places without being copied.
class PickleGraph {
 public:
  PickleId add(PickleNode node);
  const PickleNode& at(PickleId id) const { return nodes_[id]; }
  const PickleNode& expect(PickleId id, PickleKind kind) const;
  std::string_view text(PickleId id) const;

  /// STACK_GLOBAL. Throws PickleError naming what is not on the list.
  PickleId global(PickleId module, PickleId name);
  /// REDUCE: numpy's _reconstruct and dtype only.
  PickleId call(PickleId callable, PickleId arguments);
  /// NEWOBJ: QuantizedWeight8bit only.
  PickleId new_object(PickleId cls, PickleId arguments);
  /// BUILD: gives an array, a dtype or a quantised weight its state.
  void set_state(PickleId object, PickleId state);
  /// SETITEMS: key, value, key, value ...
  void set_items(PickleId dict, std::span<const PickleId> items);

 private:
  PickleId make_dtype(const std::vector<PickleId>& arguments);
  void set_dtype_state(PickleNode& dtype, PickleId state);
  void set_array_state(PickleNode& array, PickleId state);
  void set_quantized_state(PickleNode& object, PickleId state);

  std::vector<PickleNode> nodes_;
};

std::string_view kind_name(PickleKind kind);

}  // namespace grokd
