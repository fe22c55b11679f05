// Open MPI, point to point and never blocking inside the library: a rank that is lost must not take the
// others with it. Floats are added here, in the order of docs/numerics.md; MPI only carries them.
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <thread>

#include "kernels/process_group.h"
#include "kernels/rank_tree.h"

namespace grokd::kernels {
namespace {

using Clock = std::chrono::steady_clock;

enum Tag { kPartTag = 1, kSumTag, kMessageTag, kTextTag, kValuesTag };

// Above this a vector is scattered and gathered: two rounds, but the traffic of an all-reduce.
constexpr std::ptrdiff_t kGatherFloats = 8192;

std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return std::string(text, static_cast<std::size_t>(length));
}

/// Between two looks: soon at first, then the core is left to others.
void pause(Clock::duration waited) {
  using namespace std::chrono_literals;
  if (waited < 50us) return;
  if (waited < 5ms) return std::this_thread::yield();
  std::this_thread::sleep_for(waited < 1s ? 100us : 1ms);
}

/// What is under way, and with whom.
struct Pending {
  std::vector<MPI_Request> requests;
  std::vector<int> peers;
  MPI_Request* add(int peer) {
    peers.push_back(peer);
    return &requests.emplace_back(MPI_REQUEST_NULL);
  }
};

class MpiGroup final : public ProcessGroup {
 public:
  explicit MpiGroup(std::chrono::milliseconds timeout);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int ranks_here() const override { return ranks_here_; }
  std::chrono::milliseconds timeout() const override { return timeout_; }
  void sum(MatrixView<float> y) override;
  void broadcast(std::span<float> values) override;
  void send(std::span<const std::int32_t> message) override;
  void receive(Words& message, std::size_t capacity, Wait wait) override;
  std::vector<std::string> gather(const std::string& text, Wait wait) override;
  void leave() override;

 private:
  void sum_gathered(float* y, std::ptrdiff_t count);
  void sum_scattered(float* y, std::ptrdiff_t count);
  std::string text_of(int peer, Wait wait);
  void start_send(int peer, const void* data, std::size_t count, MPI_Datatype type, Tag tag);
  void start_receive(int peer, void* data, std::size_t count, MPI_Datatype type, Tag tag);
  void finish(const char* what, Wait wait = Wait::bounded);
  template <class Done>
  void poll(const char* what, Wait wait, Done done);
  [[noreturn]] void give_up(const std::string& why);
  void check(int code, const char* what) {
    if (code != MPI_SUCCESS) give_up(std::string(what) + ": " + error_text(code));
  }
  std::string missing_ranks();
  template <class Each>
  void for_each_other(Each each) const {
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) each(peer);
    }
  }

  const std::chrono::milliseconds timeout_;
  int rank_ = 0, size_ = 1, ranks_here_ = 1;
  bool broken_ = false;
  Pending pending_;
  std::vector<float> staging_;  // the other ranks' parts
};

MpiGroup::MpiGroup(std::chrono::milliseconds timeout) : timeout_(timeout) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (provided < MPI_THREAD_SERIALIZED) throw std::runtime_error("this Open MPI knows no threads");
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &size_);
  check_rank_count(size_);
  MPI_Comm host;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &ranks_here_);
  MPI_Comm_free(&host);
  pending_.requests.reserve(2 * static_cast<std::size_t>(size_));
  pending_.peers.reserve(2 * static_cast<std::size_t>(size_));
}

/// MPI_Finalize waits for all ranks, for ever if one is stuck.
void MpiGroup::leave() {
  if (broken_) return;
  broken_ = true;
  alarm(static_cast<unsigned>(timeout_.count() / 1000 + 1));
  MPI_Finalize();
  alarm(0);
}

void MpiGroup::give_up(const std::string& why) {
  broken_ = true;
  throw GroupBroken(why);
}

void MpiGroup::start_send(int peer, const void* data, std::size_t count, MPI_Datatype type, Tag tag) {
  check(MPI_Isend(data, static_cast<int>(count), type, peer, tag, MPI_COMM_WORLD, pending_.add(peer)),
        "send");
}

void MpiGroup::start_receive(int peer, void* data, std::size_t count, MPI_Datatype type, Tag tag) {
  check(MPI_Irecv(data, static_cast<int>(count), type, peer, tag, MPI_COMM_WORLD, pending_.add(peer)),
        "receive");
}

std::string MpiGroup::missing_ranks() {
  std::string ranks;
  std::vector<bool> named(static_cast<std::size_t>(size_));
  for (std::size_t i = 0; i < pending_.requests.size(); ++i) {
    const auto peer = static_cast<std::size_t>(pending_.peers[i]);
    int done = 0;
    const bool asked = pending_.requests[i] != MPI_REQUEST_NULL;
    if (asked && MPI_Test(&pending_.requests[i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done) continue;
    if (!named[peer]) ranks += (ranks.empty() ? "" : ", ") + std::to_string(peer);
    named[peer] = true;
  }
  return ranks;
}

/// Until `done()`. A quarter of the timeout is left for what comes before and after a wait: all in all a lost
/// rank is to be noticed within it.
template <class Done>
void MpiGroup::poll(const char* what, Wait wait, Done done) {
  if (broken_) throw GroupBroken("the group of ranks is broken");
  const auto begin = Clock::now();
  const auto patience = timeout_ * 3 / 4;
  while (!done()) {
    const auto waited = Clock::now() - begin;
    if (wait == Wait::bounded && waited > patience) {
      const std::string ranks = missing_ranks();
      give_up("rank " + (ranks.empty() ? "0" : ranks) + " did not answer within " +
              std::to_string(patience.count()) + " ms (" + what + ")");
    }
    pause(waited);
  }
}

void MpiGroup::finish(const char* what, Wait wait) {
  poll(what, wait, [&] {
    int all = 0;
    check(MPI_Testall(static_cast<int>(pending_.requests.size()), pending_.requests.data(), &all,
                      MPI_STATUSES_IGNORE),
          what);
    return all != 0;
  });
  pending_.requests.clear();
  pending_.peers.clear();
}

void MpiGroup::sum(MatrixView<float> y) {
  if (y.rows == 0) return;
  if (y.rows > 1 && y.stride != y.cols) throw std::logic_error("the sum of a group has rows without gaps");
  const std::ptrdiff_t count = y.rows * y.cols;
  if (size_ == 2 || count <= kGatherFloats || count < size_) return sum_gathered(y.data, count);
  sum_scattered(y.data, count);
}

/// Everyone gets everything and adds the tree: one round.
void MpiGroup::sum_gathered(float* y, std::ptrdiff_t count) {
  const auto length = static_cast<std::size_t>(count);
  staging_.resize(std::max(staging_.size(), length * static_cast<std::size_t>(size_ - 1)));
  const float* parts[kMostRanks];
  parts[rank_] = y;
  float* free = staging_.data();
  for_each_other([&](int peer) {
    start_receive(peer, free, length, MPI_FLOAT, kPartTag);
    parts[peer] = free;
    free += length;
  });
  for_each_other([&](int peer) { start_send(peer, y, length, MPI_FLOAT, kPartTag); });
  finish("sum");
  add_rank_tree(parts, size_, count, y);
}

/// Everyone adds the tree of its share of the elements and sends that to the others.
void MpiGroup::sum_scattered(float* y, std::ptrdiff_t count) {
  const auto begin = [&](int rank) { return count * rank / size_; };
  const auto length = [&](int rank) { return static_cast<std::size_t>(begin(rank + 1) - begin(rank)); };
  staging_.resize(std::max(staging_.size(), length(rank_) * static_cast<std::size_t>(size_ - 1)));
  float* own = y + begin(rank_);
  const float* parts[kMostRanks];
  parts[rank_] = own;
  float* free = staging_.data();
  for_each_other([&](int peer) {
    start_receive(peer, free, length(rank_), MPI_FLOAT, kPartTag);
    parts[peer] = free;
    free += length(rank_);
  });
  for_each_other([&](int peer) { start_send(peer, y + begin(peer), length(peer), MPI_FLOAT, kPartTag); });
  finish("sum");
  add_rank_tree(parts, size_, static_cast<std::ptrdiff_t>(length(rank_)), own);
  for_each_other([&](int peer) { start_receive(peer, y + begin(peer), length(peer), MPI_FLOAT, kSumTag); });
  for_each_other([&](int peer) { start_send(peer, own, length(rank_), MPI_FLOAT, kSumTag); });
  finish("sum");
}

void MpiGroup::broadcast(std::span<float> values) {
  if (rank_ == 0) {
    for_each_other([&](int peer) { start_send(peer, values.data(), values.size(), MPI_FLOAT, kValuesTag); });
  } else {
    start_receive(0, values.data(), values.size(), MPI_FLOAT, kValuesTag);
  }
  finish("broadcast", Wait::forever);  // while models load
}

void MpiGroup::send(std::span<const std::int32_t> message) {
  for_each_other(
      [&](int peer) { start_send(peer, message.data(), message.size(), MPI_INT32_T, kMessageTag); });
  finish("message");
}

void MpiGroup::receive(Words& message, std::size_t capacity, Wait wait) {
  message.resize(capacity);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Status status;
  check(MPI_Irecv(message.data(), static_cast<int>(capacity), MPI_INT32_T, 0, kMessageTag, MPI_COMM_WORLD,
                  &request),
        "message");
  poll("message", wait, [&] {
    int done = 0;
    check(MPI_Test(&request, &done, &status), "message");
    return done != 0;
  });
  int count = 0;
  MPI_Get_count(&status, MPI_INT32_T, &count);
  message.resize(static_cast<std::size_t>(count));
}

std::string MpiGroup::text_of(int peer, Wait wait) {
  MPI_Status status;
  pending_.add(peer);  // to be named if nothing comes
  poll("text", wait, [&] {
    int there = 0;
    check(MPI_Iprobe(peer, kTextTag, MPI_COMM_WORLD, &there, &status), "text");
    return there != 0;
  });
  pending_.requests.clear(), pending_.peers.clear();
  int count = 0;
  MPI_Get_count(&status, MPI_CHAR, &count);
  std::string text(static_cast<std::size_t>(count), '\0');
  start_receive(peer, text.data(), text.size(), MPI_CHAR, kTextTag);
  finish("text");
  return text;
}

std::vector<std::string> MpiGroup::gather(const std::string& text, Wait wait) {
  if (rank_ != 0) {
    start_send(0, text.data(), text.size(), MPI_CHAR, kTextTag);
    finish("text", wait);
    return {};
  }
  std::vector<std::string> texts{text};
  for_each_other([&](int peer) { texts.push_back(text_of(peer, wait)); });
  return texts;
}

}  // namespace

std::unique_ptr<ProcessGroup> join_process_group(std::chrono::milliseconds timeout) {
  if (launched_processes() == 1) return nullptr;
  return std::make_unique<MpiGroup>(timeout);
}

}  // namespace grokd::kernels
