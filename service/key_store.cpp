#include "service/key_store.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <utility>

#include "api/error.h"
#include "engine/models/config.h"

namespace grokd {
namespace {

bool equal_in_constant_time(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char expected = key.empty() ? '\0' : key[i % key.size()];
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(expected);
  }
  return difference == 0;
}

std::string hash_of(std::string_view key) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016zx", std::hash<std::string_view>()(key));
  return text;
}

KeyLimits limits_of(const ApiKey& key, const KeyLimits& defaults) {
  return {key.max_requests.value_or(defaults.max_requests),
          key.tokens_per_minute.value_or(defaults.tokens_per_minute)};
}

template <typename T>
bool parse_limit(std::string_view word, std::string_view name, std::optional<T>& value) {
  if (!word.starts_with(name)) return false;
  word.remove_prefix(name.size());
  T number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number < 0) return false;
  value = number;
  return true;
}

/// False: a word after the key is not understood.
bool parse_line(const std::string& line, ApiKey& key) {
  std::istringstream words(line);
  words >> key.key;
  if (key.key.starts_with('#')) key.key.clear();
  if (key.key.empty()) return true;
  for (std::string word; words >> word;) {
    if (!parse_limit(word, "max-requests=", key.max_requests) &&
        !parse_limit(word, "tokens-per-minute=", key.tokens_per_minute)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<ApiKey> read_api_keys(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw ConfigError("cannot read the key file " + file);
  std::vector<ApiKey> keys;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    ApiKey key;
    if (!parse_line(line, key)) {
      throw ConfigError("line " + std::to_string(number) + " of the key file " + file +
                        " is not KEY [max-requests=N] [tokens-per-minute=N]");
    }
    if (!key.key.empty()) keys.push_back(std::move(key));
  }
  if (keys.empty()) throw ConfigError("the key file " + file + " holds no key");
  return keys;
}

KeyAccount::KeyAccount(const ApiKey& key, const KeyLimits& defaults)
    : hash_(hash_of(key.key)),
      limits_(limits_of(key, defaults)),
      tokens_left_(static_cast<double>(limits_.tokens_per_minute)) {}

void KeyAccount::refill(Time now) {
  const double most = static_cast<double>(limits_.tokens_per_minute);
  const std::chrono::duration<double> passed = now - std::exchange(refilled_at_, now);
  tokens_left_ = std::min(most, tokens_left_ + passed.count() * most / 60);
}

void KeyAccount::begin(Time now) {
  std::lock_guard lock(mutex_);
  if (limits_.max_requests > 0 && requests_ >= limits_.max_requests) {
    throw api::errors::rate_limit_exceeded("This key has as many requests in work as it may.", 1);
  }
  if (limits_.tokens_per_minute > 0) {
    refill(now);
    const double missing = 1 - tokens_left_;
    if (missing > 0) {
      const double seconds = missing * 60 / static_cast<double>(limits_.tokens_per_minute);
      throw api::errors::rate_limit_exceeded("This key has used its tokens of the last minute.",
                                             static_cast<int>(std::clamp(std::ceil(seconds), 1.0, 120.0)));
    }
  }
  ++requests_;
}

void KeyAccount::end() {
  std::lock_guard lock(mutex_);
  --requests_;
}

void KeyAccount::charge(std::int64_t tokens, Time now) {
  std::lock_guard lock(mutex_);
  if (limits_.tokens_per_minute == 0) return;
  refill(now);
  tokens_left_ -= static_cast<double>(tokens);
}

void KeyAccount::set_limits(const ApiKey& key, const KeyLimits& defaults) {
  std::lock_guard lock(mutex_);
  const std::int64_t before = limits_.tokens_per_minute;
  limits_ = limits_of(key, defaults);
  tokens_left_ += static_cast<double>(limits_.tokens_per_minute - before);
}

KeyUse::KeyUse(std::shared_ptr<KeyAccount> account) : account_(std::move(account)) {
  if (account_) account_->begin(std::chrono::steady_clock::now());
}
KeyUse::~KeyUse() {
  if (account_) account_->end();
}
void KeyUse::charge(std::int64_t tokens) {
  if (account_ && tokens > 0) account_->charge(tokens, std::chrono::steady_clock::now());
}

KeyStore::KeyStore(std::vector<ApiKey> keys, KeyLimits defaults) : defaults_(defaults) {
  replace(std::move(keys));
}

bool KeyStore::key_needed() const {
  std::lock_guard lock(mutex_);
  return !entries_.empty();
}

std::shared_ptr<KeyAccount> KeyStore::find(std::string_view key) const {
  if (key.empty()) return nullptr;
  std::shared_ptr<KeyAccount> found;
  std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (equal_in_constant_time(key, entry.key)) found = entry.account;
  }
  return found;
}

void KeyStore::replace(std::vector<ApiKey> keys) {
  std::lock_guard lock(mutex_);
  std::vector<Entry> entries;
  for (const ApiKey& key : keys) {
    const auto old =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key.key; });
    if (old == entries_.end()) {
      entries.push_back({key.key, std::make_shared<KeyAccount>(key, defaults_)});
    } else {
      old->account->set_limits(key, defaults_);
      entries.push_back(*old);
    }
  }
  entries_ = std::move(entries);
}

}  // namespace grokd
