#pragma once
// API keys, what each may use, and what it has used. Any thread.

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace grokd {

struct KeyLimits {
  int max_requests = 0;                // answered at once; 0 = no limit
  std::int64_t tokens_per_minute = 0;  // prompts and answers together; 0 = no limit
};

/// A line of the key file. What it does not say is the server's default.
struct ApiKey {
  std::string key;
  std::optional<int> max_requests = {};
  std::optional<std::int64_t> tokens_per_minute = {};
};

/// Keys of lines `KEY [max-requests=N] [tokens-per-minute=N]`; empty lines and lines beginning with "#" do
/// not count. Throws ConfigError naming the file and line.
std::vector<ApiKey> read_api_keys(const std::string& file);

/// What one key uses. Tokens are a bucket that holds a minute's worth: a request may begin while any are
/// left, and what it takes beyond them has to be made up for by waiting.
class KeyAccount {
 public:
  using Time = std::chrono::steady_clock::time_point;

  KeyAccount(const ApiKey& key, const KeyLimits& defaults);

  /// Counts a request in until `end`. Throws ApiError 429 with the seconds after which tokens are left again.
  void begin(Time now);
  void end();
  void charge(std::int64_t tokens, Time now);
  void set_limits(const ApiKey& key, const KeyLimits& defaults);
  /// Names the key in the log without showing it.
  const std::string& hash() const { return hash_; }

 private:
  void refill(Time now);

  const std::string hash_;
  std::mutex mutex_;
  KeyLimits limits_;
  int requests_ = 0;
  double tokens_left_ = 0;
  Time refilled_at_{};
};

/// A request of an account, from its construction to its end.
class KeyUse {
 public:
  /// `account` null: nothing is limited. Throws as KeyAccount::begin.
  explicit KeyUse(std::shared_ptr<KeyAccount> account);
  ~KeyUse();
  KeyUse(const KeyUse&) = delete;
  KeyUse& operator=(const KeyUse&) = delete;
  void charge(std::int64_t tokens);

 private:
  std::shared_ptr<KeyAccount> account_;
};

class KeyStore {
 public:
  /// No keys: none is needed.
  KeyStore(std::vector<ApiKey> keys, KeyLimits defaults);

  bool key_needed() const;
  /// Null: unknown. Takes the same time wherever keys differ.
  std::shared_ptr<KeyAccount> find(std::string_view key) const;
  /// Keys that were there before keep what they have used.
  void replace(std::vector<ApiKey> keys);

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<KeyAccount> account;
  };
  const KeyLimits defaults_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace grokd
