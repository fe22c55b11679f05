#pragma once
// Rows of 16-bit codes times int8 tiles, exactly, on the tensor cores: the high and the low bytes of the
// codes are multiplied apart and joined in 64 bits. Weights are operand A, so 16 outputs and 8 rows are one
// instruction and a few rows cost no more than one. Any split of the inputs gives the same integers.
//
// A block of 8 warps: kSplit of them share the inputs of the same outputs, the others take further outputs.
// Grid: x sets of output tiles, y sets of row tiles, z groups of inputs.

#include "kernels/cuda/block.h"
#include "kernels/cuda/code_rows.h"
#include "kernels/cuda/layout.h"

namespace grokd::kernels::cuda {

inline constexpr int kMatmulWarps = 8;
inline constexpr int kMatmulThreads = kMatmulWarps * kWarp;

template <int kOutputTiles, int kRowTiles, int kSplit>
struct MatmulShape {
  static constexpr int kOutputs = kOutputTiles, kRows = kRowTiles, kSplits = kSplit;
  static constexpr int kSets = kMatmulWarps / kSplit;       // of output tiles in a block
  static constexpr int kBlockTiles = kSets * kOutputTiles;  // output tiles of a block
  static constexpr int kBlockRows = kRowTiles * kTileRows;
  /// Sums of all warps, where several share a set.
  static constexpr std::size_t kSharedInts =
      kSplit == 1 ? 0 : std::size_t{kMatmulWarps} * kOutputTiles * kRowTiles * 8 * kWarp;
  static constexpr std::size_t kSharedBytes = kSharedInts * sizeof(int);
};

/// What one warp has added up: four sums a lane for each tile, of high and of low bytes.
template <class Shape>
struct TileSums {
  int high[Shape::kOutputs][Shape::kRows][4];
  int low[Shape::kOutputs][Shape::kRows][4];
};

/// Tiles [first, end). weights: this lane's bytes of the first output tile; rows: this lane's bytes of each
/// row.
template <class Shape>
__device__ void multiply_tiles(const unsigned char* const (&weights)[Shape::kOutputs], int weight_step,
                               const unsigned char* const (&rows)[Shape::kRows], int first, int end,
                               TileSums<Shape>& sums) {
#pragma unroll
  for (int o = 0; o < Shape::kOutputs; ++o) {
#pragma unroll
    for (int r = 0; r < Shape::kRows; ++r) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums.high[o][r][i] = sums.low[o][r][i] = 0;
    }
  }
#pragma unroll 4
  for (int k = first; k < end; ++k) {
    int high[Shape::kRows][2], low[Shape::kRows][2];
#pragma unroll
    for (int r = 0; r < Shape::kRows; ++r) {
      const int4 x = *reinterpret_cast<const int4*>(rows[r] + static_cast<std::ptrdiff_t>(k) * kTileBytes);
      high[r][0] = x.x, high[r][1] = x.y, low[r][0] = x.z, low[r][1] = x.w;
    }
#pragma unroll
    for (int o = 0; o < Shape::kOutputs; ++o) {
      const int4 w =
          __ldcs(reinterpret_cast<const int4*>(weights[o] + static_cast<std::ptrdiff_t>(k) * weight_step));
      const int a[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int r = 0; r < Shape::kRows; ++r) {
        mma_s8(sums.high[o][r], a, high[r]);
        mma_u8(sums.low[o][r], a, low[r]);
      }
    }
  }
}

__device__ inline long long joined(int high, int low) { return static_cast<long long>(high) * 256 + low; }

/// Calls store(set, row tile, lane, bit, sums [outputs][2]) once for every pair of results: those of row
/// 2 * (lane % 4) + bit of the row tile and of outputs lane / 4 and lane / 4 + 8 of each output tile.
template <class Shape, class Store>
__device__ void finish_tiles(const TileSums<Shape>& sums, const Store& store) {
  if constexpr (Shape::kSplits == 1) {
#pragma unroll
    for (int r = 0; r < Shape::kRows; ++r) {
#pragma unroll
      for (int bit = 0; bit < 2; ++bit) {
        long long results[Shape::kOutputs][2];
#pragma unroll
        for (int o = 0; o < Shape::kOutputs; ++o) {
          results[o][0] = joined(sums.high[o][r][bit], sums.low[o][r][bit]);
          results[o][1] = joined(sums.high[o][r][bit + 2], sums.low[o][r][bit + 2]);
        }
        store(warp(), r, lane(), bit, results);
      }
    }
  } else {
    SharedMemory shared;
    const auto all = shared.take<int>(Shape::kSharedInts);
    const auto at = [](int w, int o, int r, int i) {
      return (((w * Shape::kOutputs + o) * Shape::kRows + r) * 8 + i) * kWarp;
    };
#pragma unroll
    for (int o = 0; o < Shape::kOutputs; ++o) {
#pragma unroll
      for (int r = 0; r < Shape::kRows; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          all[at(warp(), o, r, i) + lane()] = sums.high[o][r][i];
          all[at(warp(), o, r, i + 4) + lane()] = sums.low[o][r][i];
        }
      }
    }
    __syncthreads();
    constexpr int kItems = Shape::kSets * Shape::kRows * 2 * kWarp;
    for (int item = thread(); item < kItems; item += kMatmulThreads) {
      const int l = item % kWarp, bit = item / kWarp % 2, r = item / (2 * kWarp) % Shape::kRows;
      const int set = item / (2 * kWarp * Shape::kRows);
      long long results[Shape::kOutputs][2];
#pragma unroll
      for (int o = 0; o < Shape::kOutputs; ++o) {
        int high[2] = {0, 0}, low[2] = {0, 0};
        for (int s = 0; s < Shape::kSplits; ++s) {
          const int w = set * Shape::kSplits + s;
          for (int half = 0; half < 2; ++half) {
            high[half] += all[at(w, o, r, bit + 2 * half) + l];
            low[half] += all[at(w, o, r, bit + 2 * half + 4) + l];
          }
        }
        results[o][0] = joined(high[0], low[0]);
        results[o][1] = joined(high[1], low[1]);
      }
      store(set, r, l, bit, results);
    }
  }
}

/// What a block multiplies: rows [first_row, end_row) by a matrix.
struct MatmulWork {
  const unsigned char* weights = nullptr;
  int first_row = 0, end_row = 0;
};

/// Every row by one matrix.
struct DenseRows {
  const unsigned char* weights;
  int rows;

  __device__ MatmulWork work(int set, int set_rows) const { return {weights, set * set_rows, rows}; }
  __device__ int code_row(int row) const { return row; }
};

/// This lane's bytes of row tile `r`; rows past the end read those of the last one.
template <class Shape, class Rows>
__device__ void row_pointers(const Rows& rows, const MatmulWork& work, const CodeRows& x, int group,
                             const unsigned char* (&pointers)[Shape::kRows]) {
#pragma unroll
  for (int r = 0; r < Shape::kRows; ++r) {
    int row = work.first_row + r * kTileRows + lane() / 4;
    if (row >= work.end_row) row = work.end_row - 1;
    pointers[r] = x.run(rows.code_row(row), group) + lane() % 4 * 16;
  }
}

/// epilogue(weights, group, row, output tile, output in the tile (0..7), sums of it and of the one 8
/// further).
template <class Shape, class Rows, class Epilogue>
__global__ void __launch_bounds__(kMatmulThreads)
    multiply(MatrixLayout matrix, CodeRows x, Rows rows, Epilogue epilogue) {
  const MatmulWork work = rows.work(static_cast<int>(blockIdx.y), Shape::kBlockRows);
  if (work.first_row >= work.end_row) return;
  const int group = static_cast<int>(blockIdx.z);
  const int tiles = matrix.group_tiles();
  const int first_tile = static_cast<int>(blockIdx.x) * Shape::kBlockTiles;
  const unsigned char* weights[Shape::kOutputs];
#pragma unroll
  for (int o = 0; o < Shape::kOutputs; ++o) {
    int tile = first_tile + warp() / Shape::kSplits * Shape::kOutputs + o;
    if (tile >= matrix.output_tiles()) tile = matrix.output_tiles() - 1;
    const std::ptrdiff_t input = static_cast<std::ptrdiff_t>(tile) * matrix.input_tiles() + group * tiles;
    weights[o] = work.weights + input * kTileBytes + lane() * 16;
  }
  const unsigned char* row_bytes[Shape::kRows];
  row_pointers<Shape>(rows, work, x, group, row_bytes);
  const int part = warp() % Shape::kSplits;
  TileSums<Shape> sums;
  multiply_tiles<Shape>(weights, kTileBytes, row_bytes, tiles * part / Shape::kSplits,
                        tiles * (part + 1) / Shape::kSplits, sums);
  finish_tiles<Shape>(sums,
                      [&](int set, int r, int l, int bit, const long long(&results)[Shape::kOutputs][2]) {
                        const int row = work.first_row + r * kTileRows + l % 4 * 2 + bit;
                        if (row >= work.end_row) return;
#pragma unroll
                        for (int o = 0; o < Shape::kOutputs; ++o) {
                          const int tile = first_tile + set * Shape::kOutputs + o;
                          if (tile < matrix.output_tiles())
                            epilogue(work.weights, group, row, tile, l / 4, results[o][0], results[o][1]);
                        }
                      });
}

template <class Shape, class Rows, class Epilogue>
void launch_multiply(const MatrixLayout& matrix, const CodeRows& x, const Rows& rows, int row_sets,
                     const Epilogue& epilogue, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(matrix.output_tiles(), Shape::kBlockTiles)),
                  static_cast<unsigned>(row_sets), static_cast<unsigned>(matrix.groups));
  launch(multiply<Shape, Rows, Epilogue>, grid, kMatmulThreads, Shape::kSharedBytes, stream, matrix, x, rows,
         epilogue);
}

// By the rows that share a matrix: up to 8, 16 and 32 the weights are read once and the inputs split over the
// warps; more are multiplied in larger tiles.
using FewRows = MatmulShape<1, 1, 8>;
using SomeRows = MatmulShape<1, 2, 8>;
using MoreRows = MatmulShape<1, 4, 8>;
using ManyRows = MatmulShape<4, 4, 1>;

/// Calls run(Shape{}) with the shape for so many rows.
template <class Run>
void with_shape(int rows, const Run& run) {
  if (rows <= FewRows::kBlockRows) return run(FewRows{});
  if (rows <= SomeRows::kBlockRows) return run(SomeRows{});
  if (rows <= MoreRows::kBlockRows) return run(MoreRows{});
  run(ManyRows{});
}

}  // namespace grokd::kernels::cuda
