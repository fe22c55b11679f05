// The experts (docs/numerics.md, section 5.8): sort rows by expert, gate and up with GELU, quantise, down,
// and the gated sum of each token.

#include <stdexcept>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/expert_order.h"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/tree.h"

namespace grokd::kernels::cuda {
namespace {

constexpr int kSortWarps = 8;

struct ExpertTable {
  const unsigned char* at[kMostExperts];
};

struct SortJob {
  const std::int32_t* expert;  // [choices]
  int choices, per_token, experts, set_rows;
  ExpertOrder order;
};

/// One warp an expert; calls found(choice, rank) in rising order and returns how many there are.
template <class Found>
__device__ int for_choices_of(const SortJob& job, int expert, const Found& found) {
  int count = 0;
  for (int first = 0; first < job.choices; first += kWarp) {
    const int choice = first + lane();
    const bool mine = choice < job.choices && job.expert[choice] == expert;
    const unsigned votes = __ballot_sync(kAllLanes, mine);
    if (mine) found(choice, count + __popc(votes & ((1u << lane()) - 1)));
    count += __popc(votes);
  }
  return count;
}

__global__ void sort_rows(SortJob job) {
  SharedMemory shared;
  const auto first_set = shared.take<int>(kMostExperts + 1);
  for (int e = warp(); e < job.experts; e += kSortWarps) {
    const int count = for_choices_of(job, e, [](int, int) {});
    if (lane() == 0) first_set[e + 1] = (count + job.set_rows - 1) / job.set_rows;
  }
  __syncthreads();
  if (thread() == 0) {
    first_set[0] = 0;
    for (int e = 0; e < job.experts; ++e) first_set[e + 1] = first_set[e] + first_set[e + 1];
    *job.order.set_count = first_set[job.experts];
  }
  for (int c = thread(); c < job.choices; c += threads()) {
    if (job.expert[c] < 0) job.order.row_of[c] = -1;
  }
  __syncthreads();
  for (int e = warp(); e < job.experts; e += kSortWarps) {
    const int first = first_set[e], end = first_set[e + 1], first_row = first * job.set_rows;
    const int count = for_choices_of(job, e, [&](int choice, int rank) {
      job.order.row_of[choice] = first_row + rank;
      job.order.token_of[first_row + rank] = choice / job.per_token;
    });
    for (int row = first_row + count + lane(); row < end * job.set_rows; row += kWarp)
      job.order.token_of[row] = -1;
    for (int set = first + lane(); set < end; set += kWarp) job.order.set_expert[set] = e;
  }
}

/// Sorted rows, each set by its expert's matrix. `by_token`: codes are those of the row's token, else its
/// own.
struct SortedRows {
  ExpertTable experts;
  ExpertOrder order;
  std::size_t matrix_offset;  // in an expert's block
  bool by_token;

  __device__ MatmulWork work(int set, int set_rows) const {
    if (set >= *order.set_count) return {};
    return {experts.at[order.set_expert[set]] + matrix_offset, set * set_rows, (set + 1) * set_rows};
  }
  __device__ int code_row(int row) const {
    if (!by_token) return row;
    const int token = order.token_of[row];
    return token < 0 ? 0 : token;
  }
};

/// t = activation(gate) * up, for the same column of both.
struct StoreGated {
  MatrixLayout pair;
  CodeRows x;
  const std::int32_t* token_of;
  int ffn;
  float* t;   // [rows, F]
  bool silu;  // else GELU

  __device__ void operator()(const unsigned char* weights, int, int row, int tile, int output, long long gate,
                             long long up) const {
    const int token = token_of[row], column = tile * kPairOutputs + output;
    if (token < 0 || column >= ffn) return;
    const float* scales =
        reinterpret_cast<const float*>(weights + pair.scale_offset()) + tile * kTileOutputs + output;
    const float code_scale = *x.scale(token, 0);
    const float u = __ll2float_rn(gate) * (code_scale * scales[0]);
    const float v = __ll2float_rn(up) * (code_scale * scales[kPairOutputs]);
    t[static_cast<std::ptrdiff_t>(row) * ffn + column] = (silu ? silu_f32(u) : gelu_f32(u)) * v;
  }
};

__global__ void quantise_sorted(const float* t, ExpertOrder order, int set_rows, CodeRows out) {
  SharedMemory shared;
  const auto room = shared.take<unsigned>(kReduceRoom);
  const int row = static_cast<int>(blockIdx.x), group = static_cast<int>(blockIdx.y);
  if (row >= *order.set_count * set_rows || order.token_of[row] < 0) return;
  const int length = out.layout.group_cols();
  const float* run =
      t + static_cast<std::ptrdiff_t>(row) * out.layout.cols + static_cast<std::ptrdiff_t>(group) * length;
  quantise_run([&](int i) { return run[i]; }, length, out.run(row, group), out.scale(row, group), room);
}

/// y_g of down, [rows, G, D].
struct StoreDown {
  MatrixLayout matrix;
  CodeRows x;
  float* parts;

  __device__ void operator()(const unsigned char* weights, int group, int row, int tile, int output,
                             long long first, long long second) const {
    const float* scales = reinterpret_cast<const float*>(weights + matrix.scale_offset()) +
                          static_cast<std::ptrdiff_t>(group) * matrix.padded_out();
    const float code_scale = *x.scale(row, group);
    float* to = parts + (static_cast<std::ptrdiff_t>(row) * matrix.groups + group) * matrix.out;
    const int n = tile * kTileOutputs + output;
    if (n < matrix.out) to[n] = __ll2float_rn(first) * (code_scale * scales[n]);
    if (n + 8 < matrix.out) to[n + 8] = __ll2float_rn(second) * (code_scale * scales[n + 8]);
  }
};

struct CombineJob {
  const float* parts;  // [rows, G, D]
  const float* gate;   // [choices]
  const std::int32_t* row_of;
  int per_token, groups, width;
  float* y;
  std::ptrdiff_t stride;
};

__global__ void combine_experts(CombineJob job) {
  const int n = static_cast<int>(blockIdx.x) * threads() + thread();
  const int token = static_cast<int>(blockIdx.y);
  if (n >= job.width) return;
  TreeSum sum;
  for (int g = 0; g < job.groups; ++g) {
    float z = 0;
    bool first = true;
    for (int j = 0; j < job.per_token; ++j) {
      const int choice = token * job.per_token + j, row = job.row_of[choice];
      if (row < 0) continue;
      const float part =
          job.gate[choice] * job.parts[(static_cast<std::ptrdiff_t>(row) * job.groups + g) * job.width + n];
      z = first ? part : z + part;
      first = false;
    }
    sum.add(z);
  }
  job.y[token * job.stride + n] = sum.result();
}

}  // namespace

void CudaBackend::experts(const Quantised& x, const ExpertChoice& choice, const ExpertWeights& w,
                          MatrixView<float> y) {
  if (w.experts > kMostExperts)
    throw std::invalid_argument("the CUDA backend has room for 256 experts of a layer");
  const cudaStream_t queue = stream();
  const int choices = choice.tokens * choice.per_token;
  ExpertTable table{};
  for (std::size_t e = 0; e < w.data.size(); ++e) table.at[e] = w.data[e].as<const unsigned char>();
  const ExpertLayout layout{w.width, w.ffn, w.groups};
  const MatrixLayout pair = layout.gate_up(), down = layout.down();

  with_shape(ceil_div(choices, w.experts), [&](auto shape) {
    using Shape = decltype(shape);
    constexpr int kSetRows = Shape::kBlockRows;
    const int sets = ExpertOrder::most_sets(choices, w.experts, kSetRows), rows = sets * kSetRows;
    expert_order_.at_least(ExpertOrder::bytes(choices, sets, kSetRows), queue);
    const ExpertOrder order = ExpertOrder::at(expert_order_.as<std::byte>(), choices, sets, kSetRows);
    const std::size_t n = static_cast<std::size_t>(rows);
    inner_.at_least(n * static_cast<std::size_t>(w.ffn) * sizeof(float), queue);
    inner_codes_.at_least(CodeLayout{w.ffn, w.groups}.bytes(rows), queue);
    inner_scales_.at_least(n * static_cast<std::size_t>(w.groups) * sizeof(float), queue);
    parts_.at_least(
        n * static_cast<std::size_t>(w.groups) * static_cast<std::size_t>(w.width) * sizeof(float), queue);
    const CodeRows inner{inner_codes_.as<unsigned char>(), inner_scales_.as<float>(), {w.ffn, w.groups}};

    launch(sort_rows, 1, kSortWarps * kWarp, sizeof(int) * (kMostExperts + 1), queue,
           SortJob{choice.expert, choices, choice.per_token, w.experts, kSetRows, order});
    const CodeRows codes = code_rows(x);
    launch_multiply<Shape>(
        pair, codes, SortedRows{table, order, 0, true}, sets,
        StoreGated{pair, codes, order.token_of, w.ffn, inner_.as<float>(), w.activation == Activation::silu},
        queue);
    launch(quantise_sorted, dim3(static_cast<unsigned>(rows), static_cast<unsigned>(w.groups)),
           kMatmulThreads, kReduceRoom * sizeof(unsigned), queue, inner_.as<float>(), order, kSetRows, inner);
    launch_multiply<Shape>(down, inner, SortedRows{table, order, pair.bytes(), false}, sets,
                           StoreDown{down, inner, parts_.as<float>()}, queue);
    const dim3 grid(static_cast<unsigned>(ceil_div(w.width, kMatmulThreads)),
                    static_cast<unsigned>(choice.tokens));
    launch(combine_experts, grid, kMatmulThreads, 0, queue,
           CombineJob{parts_.as<float>(), choice.gate, order.row_of, choice.per_token, w.groups, w.width,
                      y.data, y.stride});
  });
}

}  // namespace grokd::kernels::cuda
