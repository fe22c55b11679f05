// Packing, loading what was packed, and refusing what is damaged or belongs elsewhere.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "engine/checkpoint/checksum.h"
#include "engine/checkpoint/packed_file.h"
#include "engine/model_files.h"
#include "engine/model_runner.h"
#include "engine/pack_model.h"
#include "engine/packed_model.h"
#include "engine/verify_model.h"
#include "tests/support/model_harness.h"
#include "tests/support/temp_folder.h"

using namespace grokd;
using namespace grokd::test;
namespace fs = std::filesystem;

namespace {

const std::string kTinyA = GROKD_CHECKPOINT_DIR "/tiny-a";

void pack(const std::string& dir, const std::string& out, int ranks, const ProgressSink& progress = {}) {
  pack_model(dir, load_model_config(dir), out, {.tensor_parallel = ranks, .threads = 2}, progress);
}

std::string rank_file(const TempFolder& folder, int rank, int ranks) {
  return folder / ("packed/" + packed_file_name({rank, ranks}));
}

/// What opening and reading the whole model says.
std::string refusal(const std::string& dir) {
  return message_of<ConfigError>([&] {
    const auto backend = make_backend("scalar");
    ModelHarness model(dir, make_backend("scalar"));
  });
}

void flip(const std::string& path, std::uint64_t offset) {
  std::string bytes = read_file(path);
  bytes.at(offset) = static_cast<char>(bytes.at(offset) ^ 0x10);
  write_file(path, bytes);
}

struct Interrupted {};

}  // namespace

TEST_CASE("a packed model holds the very blocks that loading the checkpoint makes") {
  const TempFolder out;
  pack(kTinyA, out.path(), 2);
  const ModelConfig config = load_model_config(out.path());
  const auto backend = make_backend("scalar");
  const auto from_checkpoint = open_model_files(kTinyA, load_model_config(kTinyA));
  const auto from_packed = open_model_files(out.path(), config);
  CHECK(from_packed->ranks() == 2);
  CHECK(from_packed->fingerprint() == from_checkpoint->fingerprint());
  for (int rank = 0; rank < 2; ++rank) {
    const auto blocks = find_architecture(config.model_type).blocks(config, {rank, 2});
    const auto wanted = from_checkpoint->open(*backend, blocks, {rank, 2}, {});
    const auto found = from_packed->open(*backend, blocks, {rank, 2}, {});
    for (const WeightBlock& block : blocks) {
      CAPTURE(block.name);
      const kernels::Buffer a = wanted->take(block), b = found->take(block);
      REQUIRE(a.bytes() == b.bytes());
      CHECK(std::memcmp(a.data(), b.data(), a.bytes()) == 0);
    }
  }
}

TEST_CASE("packing the same checkpoint twice gives the same bytes") {
  const TempFolder one, two;
  pack(kTinyA, one.path(), 2);
  pack(kTinyA, two.path(), 2);
  for (int rank = 0; rank < 2; ++rank)
    CHECK(read_file(rank_file(one, rank, 2)) == read_file(rank_file(two, rank, 2)));
  CHECK(fs::exists(one / "tokenizer.model"));
  CHECK_FALSE(fs::exists(rank_file(one, 0, 2) + ".journal"));
}

TEST_CASE("packing that was interrupted goes on and ends with the same file") {
  const TempFolder whole, out;
  pack(kTinyA, whole.path(), 1);
  std::size_t first_run = 0, calls = 0;
  CHECK_THROWS_AS(pack_model(kTinyA, load_model_config(kTinyA), out.path(), {1, 1},
                             [&](const LoadProgress& p) {
                               first_run = p.tensors_done;
                               if (p.tensors_done == 12) throw Interrupted{};
                             }),
                  Interrupted);
  CHECK(first_run == 12);
  CHECK(fs::exists(rank_file(out, 0, 1) + ".part"));
  CHECK_FALSE(fs::exists(out / "config.json"));
  // A block that the disk lost is made again; so is one whose line in the journal was cut off.
  const std::string journal = read_file(rank_file(out, 0, 1) + ".journal");
  write_file(rank_file(out, 0, 1) + ".journal", journal.substr(0, journal.size() - 5));
  flip(rank_file(out, 0, 1) + ".part", 4096);
  pack_model(kTinyA, load_model_config(kTinyA), out.path(), {1, 1}, [&](const LoadProgress&) { ++calls; });
  CHECK(calls == 26);
  CHECK(read_file(rank_file(out, 0, 1)) == read_file(rank_file(whole, 0, 1)));
}

TEST_CASE("what is packed already is not packed again") {
  const TempFolder out;
  pack(kTinyA, out.path(), 1);
  const auto time = fs::last_write_time(rank_file(out, 0, 1));
  pack(kTinyA, out.path(), 1);
  CHECK(fs::last_write_time(rank_file(out, 0, 1)) == time);
}

TEST_CASE("a disk that is full is named, and packing goes on when there is room") {
  const TempFolder out;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little{65536, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &little);
  const std::string message = message_of<ConfigError>([&] { pack(kTinyA, out.path(), 1); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  CHECK(message.find(rank_file(out, 0, 1) + ".part: cannot be written: ") == 0);
  CHECK(message.find("the same command goes on") != std::string::npos);
  pack(kTinyA, out.path(), 1);
  CHECK(refusal(out.path()) == "");
}

TEST_CASE("a folder packed for one mesh or model takes no other") {
  const TempFolder out;
  pack(kTinyA, out.path(), 1);
  CHECK(message_of<ConfigError>([&] { pack(kTinyA, out.path(), 2); }) ==
        (out / "packed") + ": is packed for tensor parallel 1; choose another folder for 2");
  const TempFolder changed;
  fs::copy(kTinyA, changed.path(), fs::copy_options::recursive);
  flip(changed / "ckpt-0/tensor00001_000", 160);
  CHECK(message_of<ConfigError>([&] {
          pack(changed.path(), out.path(), 1);
        }).find(rank_file(out, 0, 1) + ": exists already and was packed from other weights (") == 0);
  CHECK(message_of<ConfigError>([&] { pack(kTinyA, changed / "three", 3); }).find("tensor parallel 3") == 0);
}

TEST_CASE("a truncated or damaged packed file is refused by name") {
  const TempFolder out;
  pack(kTinyA, out.path(), 1);
  const std::string file = rank_file(out, 0, 1), good = read_file(file);
  CHECK(refusal(out.path()) == "");
  write_file(file, good.substr(0, good.size() - 1));
  CHECK(refusal(out.path()) == file + ": has " + std::to_string(good.size() - 1) + " bytes instead of " +
                                   std::to_string(good.size()));
  write_file(file, good.substr(0, 10));
  CHECK(refusal(out.path()) == file + ": is too short for a packed file");
  for (const auto& [offset, what] : std::vector<std::pair<std::size_t, std::string>>{
           {0, "is not a packed file"},
           {8, "is a packed file of version 17, this program reads 1: pack again"},
           {20, "has a damaged header"},
           {good.size() - 40, "has a damaged table"}}) {
    CAPTURE(offset);
    write_file(file, good);
    flip(file, offset);
    CHECK(refusal(out.path()) == file + ": " + what);
  }
}

TEST_CASE("a bit flipped in any block is found at loading and by verify, which names every bad block") {
  const TempFolder out;
  pack(kTinyA, out.path(), 1);
  const std::string file = rank_file(out, 0, 1);
  const PackedTable table = PackedFile(file).table();
  for (const std::size_t i : {std::size_t{0}, table.entries.size() - 1}) {
    flip(file, table.entries[i].offset + table.entries[i].bytes - 1);
  }
  CHECK(refusal(out.path()).find(" is damaged: its checksum is ") != std::string::npos);
  const VerifyReport report = verify_model(out.path(), load_model_config(out.path()), {}, {});
  REQUIRE(report.problems.size() == 2);
  CHECK(report.problems[0].find(file + ": " + table.entries[0].name + " is damaged") == 0);
  CHECK(report.problems[1].find(file + ": " + table.entries.back().name + " is damaged") == 0);
  CHECK(
      verify_model(out.path(), load_model_config(out.path()), {.structure_only = true}, {}).problems.empty());
}

TEST_CASE("packed files that were mixed up are refused: another rank, model, configuration or layout") {
  const TempFolder two, other, changed;
  pack(kTinyA, two.path(), 2);
  fs::copy_file(rank_file(two, 0, 2), rank_file(two, 1, 2), fs::copy_options::overwrite_existing);
  CHECK(refusal(two.path()) == rank_file(two, 1, 2) + ": is rank 0 of 2, not rank 1 of 2");

  fs::copy(kTinyA, changed.path(), fs::copy_options::recursive);
  flip(changed / "ckpt-0/tensor00001_000", 160);
  pack(changed.path(), other.path(), 2);
  fs::copy_file(rank_file(other, 1, 2), rank_file(two, 1, 2), fs::copy_options::overwrite_existing);
  CHECK(refusal(two.path()).find(rank_file(two, 1, 2) + ": was packed from other weights (") == 0);

  ModelConfig config = load_model_config(other.path());
  config.num_layers = 3;
  save_model_config(config, other.path());
  CHECK(refusal(other.path()) ==
        rank_file(other, 0, 2) + ": was packed for num_layers 2, config.json says 3");

  const TempFolder one;
  pack(kTinyA, one.path(), 1);
  const auto files = open_model_files(one.path(), load_model_config(one.path()));
  const auto reference = make_backend("reference");
  CHECK(message_of<ConfigError>([&] {
          files->open(*reference, {}, {0, 1}, {});
        }) == rank_file(one, 0, 1) + ": holds the layout cpu-panels-1, this backend needs reference");
  fs::remove(rank_file(two, 0, 2));
  CHECK(refusal(two.path()).find(rank_file(two, 0, 2) + ": cannot be opened: ") == 0);
}

TEST_CASE("a packed folder loads for the ranks it was packed for and no others") {
  const TempFolder out;
  pack(kTinyA, out.path(), 2);
  const ModelConfig config = load_model_config(out.path());
  RunnerOptions options;
  CHECK(load_model(out.path(), config, options, {})->limits().vocab_size == config.vocab_size);
  options.tensor_parallel = 1;
  CHECK(message_of<ConfigError>([&] { load_model(out.path(), config, options, {}); }) ==
        out.path() + ": is packed for tensor parallel 2, not 1");
  CHECK(message_of<ConfigError>([&] { open_checkpoint(out.path(), config); }) ==
        (out / "packed") + ": is packed, its tensors cannot be read one by one (grokd verify checks it)");
}

TEST_CASE("verify finds values that are not finite in a checkpoint") {
  const TempFolder folder;
  fs::copy(kTinyA, folder.path(), fs::copy_options::recursive);
  const ModelConfig config = load_model_config(folder.path());
  const VerifyReport good = verify_model(folder.path(), config, {}, {});
  CHECK(good.form == "checkpoint of 26 tensors");
  CHECK(good.problems.empty());
  const std::string file = folder / "ckpt-0/tensor00001_000";
  std::string bytes = read_file(file);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + bytes.size() - 5 - 8, &nan, sizeof nan);
  write_file(file, bytes);
  const VerifyReport bad = verify_model(folder.path(), config, {}, {});
  REQUIRE(bad.problems.size() == 1);
  CHECK(bad.problems[0] == file + ": language_model/rms_norm/scale: 1 values of the weight are not finite");
}
