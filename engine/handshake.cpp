#include "engine/handshake.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>

#include "engine/checkpoint/checksum.h"

namespace grokd {
namespace {

using kernels::ProcessGroup;

constexpr std::size_t kLongestReason = 1000;

/// Of the running program's own file: any other build has another one.
std::string program_checksum() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  Checksum sum;
  std::array<char, 1 << 16> bytes;
  while (file.read(bytes.data(), bytes.size()) || file.gcount() > 0) {
    sum.add(std::as_bytes(std::span(bytes.data(), static_cast<std::size_t>(file.gcount()))));
  }
  return checksum_text(sum.value());
}

std::string text_checksum(const std::string& text) {
  return checksum_text(checksum(std::as_bytes(std::span(text.data(), text.size()))));
}

std::string ranges_checksum(const KvRangeTable* ranges) {
  if (ranges == nullptr) return "none";
  Checksum sum;
  sum.add(std::as_bytes(std::span(ranges->keys)));
  sum.add(std::as_bytes(std::span(ranges->values)));
  return checksum_text(sum.value());
}

}  // namespace

RankFacts rank_facts(const ModelSource& source, const RunnerOptions& options) {
  return {{"program", program_checksum()},
          {"configuration", text_checksum(config_text(source.config))},
          {"weights", source.files.fingerprint()},
          {"cache ranges", ranges_checksum(source.ranges)},
          {"tensor parallel", std::to_string(options.tensor_parallel)},
          {"context", std::to_string(options.context)},
          {"slots", std::to_string(options.max_sequences)},
          {"step tokens", std::to_string(options.max_batch_tokens)},
          {"rows of logits", std::to_string(options.max_logit_rows)},
          {"cache bytes", std::to_string(options.kv_cache_bytes)}};
}

std::string facts_text(const RankFacts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += name + '=' + value + '\n';
  return text;
}

std::string difference(const RankFacts& leader, const std::string& follower_text, int follower) {
  std::istringstream lines(follower_text);
  for (const auto& [name, value] : leader) {
    std::string line;
    std::getline(lines, line);
    if (line == name + '=' + value) continue;
    const bool same_name = line.starts_with(name + '=');
    return "rank " + std::to_string(follower) + " differs from rank 0 in " + name +
           (same_name ? ": " + line.substr(name.size() + 1) + ", not " + value : "");
  }
  return {};
}

void shake_hands(const ModelSource& source, const RunnerOptions& options) {
  ProcessGroup& group = *options.processes;
  const RankFacts facts = rank_facts(source, options);
  const std::vector<std::string> texts = group.gather(facts_text(facts), ProcessGroup::Wait::forever);
  std::string why;
  for (std::size_t rank = 1; rank < texts.size() && why.empty(); ++rank) {
    why = difference(facts, texts[rank], static_cast<int>(rank));
  }
  // All say why: the launcher may end the others as soon as one has exited.
  kernels::Words verdict(why.begin(), why.end());
  if (group.rank() == 0) {
    verdict.resize(std::min(verdict.size(), kLongestReason));
    group.send(verdict);
  } else {
    group.receive(verdict, kLongestReason, ProcessGroup::Wait::forever);
    why.assign(verdict.begin(), verdict.end());
  }
  if (why.empty()) return;
  group.leave();
  throw ConfigError(why);
}

}  // namespace grokd
