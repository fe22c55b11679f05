#include "engine/checkpoint/named_checkpoint.h"

#include <algorithm>
#include <map>
#include <set>

#include "engine/checkpoint/tensor_table.h"

namespace grokd {
namespace {

using Shape = std::vector<std::int64_t>;

class NamedCheckpoint final : public Checkpoint {
 public:
  NamedCheckpoint(std::string folder, std::vector<MappedFile> files, std::vector<CheckpointTensor> tensors)
      : folder_(std::move(folder)), files_(std::move(files)), tensors_(std::move(tensors)) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].path, i);
    std::sort(files_.begin(), files_.end(),
              [](const MappedFile& a, const MappedFile& b) { return a.bytes().data() < b.bytes().data(); });
  }

  std::span<const CheckpointTensor> tensors() const override { return tensors_; }

  const CheckpointTensor& get(std::string_view path) const override {
    const auto found = index_.find(path);
    if (found == index_.end()) throw ConfigError(folder_ + ": has no tensor " + std::string(path));
    return tensors_[found->second];
  }

  void will_read(const CheckpointTensor&, const ByteRows& rows) const override {
    if (const MappedFile* file = file_of(rows.data)) file->will_read(rows);
  }
  void done_with(const CheckpointTensor& tensor) const override {
    for (const TensorView& array : tensor.arrays()) done_with(tensor, {array.data, array.bytes()});
  }
  void done_with(const CheckpointTensor&, std::span<const std::byte> part) const override {
    if (const MappedFile* file = file_of(part.data())) file->drop_pages(part);
  }

 private:
  const MappedFile* file_of(const std::byte* data) const {
    const auto after = std::upper_bound(
        files_.begin(), files_.end(), data,
        [](const std::byte* at, const MappedFile& file) { return at < file.bytes().data(); });
    return after == files_.begin() ? nullptr : &*(after - 1);
  }

  std::string folder_;
  std::vector<MappedFile> files_;  // by address
  std::vector<CheckpointTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

class Assembler {
 public:
  Assembler(const StoredTensors& stored, const NameTable& names, const ModelConfig& config)
      : stored_(stored), names_(names), config_(config) {
    for (const StoredTensor& tensor : stored.tensors) by_name_[tensor.name].push_back(&tensor);
  }

  CheckpointTensor assemble(const TensorSpec& spec, const std::string& from);
  /// Throws ConfigError when something is stored that the model has no place for.
  void check_all_used() const;

 private:
  using Pieces = std::vector<const StoredTensor*>;
  [[noreturn]] static void fail(const StoredTensor& tensor, const std::string& what) {
    throw ConfigError(tensor.file + ": " + tensor.name + ": " + what);
  }
  const Pieces& find(const std::string& name, const std::string& path);
  const StoredTensor& find_one(const std::string& name, const std::string& path);
  void check_shape(const StoredTensor& tensor, const Shape& found, const Shape& wanted) const;
  FloatMatrix matrix(const Pieces& pieces, bool inputs_cut, const Shape& wanted) const;
  std::vector<FloatMatrix> experts(const std::string& pattern, const TensorSpec& spec, CheckpointTensor& to);

  const StoredTensors& stored_;
  const NameTable& names_;
  const ModelConfig& config_;
  std::map<std::string, Pieces, std::less<>> by_name_;
  std::set<std::string, std::less<>> used_;
};

const Assembler::Pieces& Assembler::find(const std::string& name, const std::string& path) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end())
    throw ConfigError(stored_.folder + ": has no tensor " + name + " (" + path +
                      "), which the configuration of a " + config_.model_type + " asks for");
  for (const StoredTensor* piece : found->second) {
    if (!piece->usable) fail(*piece, "its type " + piece->type + " is not supported");
  }
  used_.insert(name);
  return found->second;
}

const StoredTensor& Assembler::find_one(const std::string& name, const std::string& path) {
  const Pieces& pieces = find(name, path);
  if (pieces.size() > 1) fail(*pieces[1], "is in " + pieces[0]->file + " too");
  return *pieces.front();
}

void Assembler::check_shape(const StoredTensor& tensor, const Shape& found, const Shape& wanted) const {
  if (found == wanted) return;
  fail(tensor, "has shape " + shape_text(found) + ", the configuration asks for " + shape_text(wanted));
}

/// `wanted`: [out, in] of all pieces together.
FloatMatrix Assembler::matrix(const Pieces& pieces, bool inputs_cut, const Shape& wanted) const {
  FloatMatrix result;
  result.along_inputs = inputs_cut && pieces.size() > 1;
  const std::size_t whole = result.along_inputs ? 0 : 1;  // the dimension that is not cut
  for (const StoredTensor* piece : pieces) {
    if (piece->view.shape.size() != 2 || piece->view.shape[whole] != wanted[whole])
      check_shape(*piece, piece->view.shape, wanted);
    result.pieces.push_back(piece->view);
  }
  check_shape(*pieces.front(), {result.out(), result.in()}, wanted);
  return result;
}

/// All experts' matrices from one array [experts, out, in], or from one a piece.
std::vector<FloatMatrix> Assembler::experts(const std::string& pattern, const TensorSpec& spec,
                                            CheckpointTensor& to) {
  const std::int64_t count = spec.weight[0], in = spec.weight[1], out = spec.weight[2];
  std::vector<FloatMatrix> matrices;
  if (pattern.find("{E}") == pattern.npos && count > 1) {
    const StoredTensor& whole = find_one(pattern, spec.path);
    check_shape(whole, whole.view.shape, {count, out, in});
    const std::size_t bytes = whole.view.bytes() / static_cast<std::size_t>(count);
    for (std::int64_t e = 0; e < count; ++e) {
      const std::byte* data = whole.view.data + static_cast<std::size_t>(e) * bytes;
      matrices.push_back({.pieces = {{data, whole.view.dtype, {out, in}}}});
    }
    to.file = whole.file;
    return matrices;
  }
  for (std::int64_t e = 0; e < count; ++e) {
    const Pieces& pieces = find(stored_name(pattern, static_cast<int>(e)), spec.path);
    matrices.push_back(matrix(pieces, spec.path.ends_with("linear_1/w"), {out, in}));
    to.file = pieces.front()->file;
  }
  return matrices;
}

CheckpointTensor Assembler::assemble(const TensorSpec& spec, const std::string& from) {
  CheckpointTensor tensor{spec.path, {}, {}, {}};
  const std::string pattern = stored_pattern(names_, from);
  if (pattern.empty())
    throw ConfigError(stored_.folder + ": there is no name for " + from + " of a " + config_.model_type);
  if (spec.weight.size() == 3) {
    tensor.matrices = experts(pattern, spec, tensor);
    return tensor;
  }
  const StoredTensor& one = find_one(pattern, spec.path);
  tensor.file = one.file;
  if (!spec.path.ends_with("/w")) {
    check_shape(one, one.view.shape, spec.weight);
    tensor.weight = one.view;
    return tensor;
  }
  FloatMatrix whole = matrix({&one}, false, {spec.weight[1], spec.weight[0]});
  if (spec.path.ends_with("query/w") || spec.path.ends_with("key/w"))
    whole.paired_head = stored_.paired_heads;
  tensor.matrices.push_back(std::move(whole));
  return tensor;
}

void Assembler::check_all_used() const {
  for (const StoredTensor& tensor : stored_.tensors) {
    const std::string_view name = tensor.name;
    const bool spare = name.ends_with("rotary_emb.inv_freq") || name == "rope_freqs.weight" ||
                       (config_.tied_embeddings && (name == "lm_head.weight" || name == "output.weight"));
    if (!spare && used_.count(tensor.name) == 0)
      fail(tensor, "has no place in a " + config_.model_type + " of " + std::to_string(config_.num_layers) +
                       " layers and " + std::to_string(config_.num_experts) + " experts");
  }
}

}  // namespace

std::unique_ptr<Checkpoint> make_named_checkpoint(StoredTensors stored, const NameTable& names,
                                                  const ModelConfig& config, const LoadRules& rules) {
  std::vector<CheckpointTensor> tensors;
  Assembler assembler(stored, names, config);
  for (const TensorSpec& spec : tensor_table(config)) {
    if (const auto from = stored_path(rules, spec.path)) tensors.push_back(assembler.assemble(spec, *from));
  }
  if (rules.exclude.empty() && rules.rename.empty()) assembler.check_all_used();
  return std::make_unique<NamedCheckpoint>(stored.folder, std::move(stored.files), std::move(tensors));
}

}  // namespace grokd
