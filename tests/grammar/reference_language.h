#pragma once
// An independent definition of what a language is, for comparison: terms with Brzozowski derivatives over
// bytes. Slow and simple; shares no code with the engine.

#include <algorithm>
#include <bitset>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace grokd::testing {

using Term = int;

/// Terms are stored once. Every term built from terms with at least one text has one too, and derivatives
/// keep `nothing` as the only term without: so a text can be completed exactly if its derivative is not
/// `nothing`.
class Language {
 public:
  static constexpr Term kNothing = 0, kEmpty = 1;  // no text; the empty text only
  static constexpr int kEndless = -1;

  Language() {
    intern({Kind::nothing, {}, {}, 0, 0, {}});
    intern({Kind::empty, {}, {}, 0, 0, {}});
  }

  int num_terms() const { return static_cast<int>(nodes_.size()); }

  Term bytes(int first, int last) {
    std::bitset<256> set;
    for (int b = first; b <= last; ++b) set.set(b);
    return bytes(set);
  }
  Term bytes(const std::bitset<256>& set) {
    return set.none() ? kNothing : intern({Kind::bytes, set, {}, 0, 0, {}});
  }
  Term text(const std::string& s) {
    Term t = kEmpty;
    for (auto it = s.rbegin(); it != s.rend(); ++it) {
      const int b = static_cast<unsigned char>(*it);
      t = then(bytes(b, b), t);
    }
    return t;
  }
  Term then(Term a, Term b) {
    if (a == kNothing || b == kNothing) return kNothing;
    if (a == kEmpty) return b;
    if (nodes_[a].kind == Kind::then) return then(nodes_[a].parts[0], then(nodes_[a].parts[1], b));
    return intern({Kind::then, {}, {a, b}, 0, 0, {}});
  }
  Term all(const std::vector<Term>& parts) {
    Term t = kEmpty;
    for (auto it = parts.rbegin(); it != parts.rend(); ++it) t = then(*it, t);
    return t;
  }
  Term any(const std::vector<Term>& options) {
    std::set<Term> flat;
    for (Term t : options) {
      if (nodes_[t].kind == Kind::any) {
        flat.insert(nodes_[t].parts.begin(), nodes_[t].parts.end());
      } else if (t != kNothing) {
        flat.insert(t);
      }
    }
    if (flat.empty()) return kNothing;
    if (flat.size() == 1) return *flat.begin();
    return intern({Kind::any, {}, {flat.begin(), flat.end()}, 0, 0, {}});
  }
  Term repeat(Term body, int min, int max) {
    if (max == 0 || body == kEmpty) return kEmpty;
    if (body == kNothing) return min == 0 ? kEmpty : kNothing;
    return intern({Kind::repeat, {}, {body}, min, max, {}});
  }
  Term optional(Term body) { return any({kEmpty, body}); }
  /// Texts of `body`, which has infinitely many after every prefix, without `words`.
  Term except(Term body, const std::set<std::string>& words) {
    if (body == kNothing || words.empty()) return body;
    return intern({Kind::except, {}, {body}, 0, 0, words});
  }
  /// A name whose meaning is set later; it must read a byte before it meets itself again.
  Term declare() {
    names_.push_back(kNothing);
    return intern({Kind::name, {}, {}, static_cast<int>(names_.size()) - 1, 0, {}});
  }
  void define(Term name, Term meaning) { names_[nodes_[name].min] = meaning; }

  bool has_empty(Term t) {
    if (const auto known = has_empty_.find(t); known != has_empty_.end()) return known->second;
    const bool result = find_has_empty(t);
    has_empty_[t] = result;
    return result;
  }

  /// What may follow `byte` in the texts of `t`.
  Term after(Term t, unsigned char byte) {
    const auto key = std::make_pair(t, static_cast<int>(byte));
    if (const auto known = derivatives_.find(key); known != derivatives_.end()) return known->second;
    const Term result = derive(nodes_[t], byte);
    derivatives_[key] = result;
    return result;
  }
  Term after(Term t, std::string_view text) {
    for (const char c : text) {
      if (t == kNothing) break;
      t = after(t, static_cast<unsigned char>(c));
    }
    return t;
  }

 private:
  enum class Kind { nothing, empty, bytes, then, any, repeat, except, name };
  struct Node {
    Kind kind;
    std::bitset<256> set;
    std::vector<Term> parts;
    int min, max;  // of a repeat; `min` of a name is its number
    std::set<std::string> words;
  };
  struct Less {
    bool operator()(const Node& a, const Node& b) const {
      if (a.kind != b.kind) return a.kind < b.kind;
      if (a.min != b.min) return a.min < b.min;
      if (a.max != b.max) return a.max < b.max;
      if (a.parts != b.parts) return a.parts < b.parts;
      if (a.words != b.words) return a.words < b.words;
      return a.set != b.set && a.set.to_string() < b.set.to_string();
    }
  };

  Term intern(const Node& node) {
    const auto [it, is_new] = ids_.try_emplace(node, static_cast<Term>(nodes_.size()));
    if (is_new) nodes_.push_back(node);
    return it->second;
  }

  bool find_has_empty(Term t) {
    const Node& n = nodes_[t];
    switch (n.kind) {
      case Kind::nothing:
      case Kind::bytes:
        return false;
      case Kind::empty:
        return true;
      case Kind::then:
        return has_empty(n.parts[0]) && has_empty(n.parts[1]);
      case Kind::any:
        return std::any_of(n.parts.begin(), n.parts.end(), [&](Term p) { return has_empty(p); });
      case Kind::repeat:
        return n.min == 0 || has_empty(n.parts[0]);
      case Kind::except:
        return has_empty(n.parts[0]) && !n.words.contains("");
      case Kind::name:
        return has_empty(names_[n.min]);
    }
    return false;
  }

  Term derive(const Node node, unsigned char byte) {  // by value: building terms moves nodes_
    switch (node.kind) {
      case Kind::nothing:
      case Kind::empty:
        return kNothing;
      case Kind::bytes:
        return node.set[byte] ? kEmpty : kNothing;
      case Kind::then: {
        const Term first = then(after(node.parts[0], byte), node.parts[1]);
        return has_empty(node.parts[0]) ? any({first, after(node.parts[1], byte)}) : first;
      }
      case Kind::any: {
        std::vector<Term> options;
        for (Term part : node.parts) options.push_back(after(part, byte));
        return any(options);
      }
      case Kind::repeat: {
        const int max = node.max == kEndless ? kEndless : node.max - 1;
        return then(after(node.parts[0], byte), repeat(node.parts[0], std::max(node.min - 1, 0), max));
      }
      case Kind::except: {
        std::set<std::string> rest;
        for (const std::string& word : node.words) {
          if (!word.empty() && static_cast<unsigned char>(word[0]) == byte) rest.insert(word.substr(1));
        }
        return except(after(node.parts[0], byte), rest);
      }
      case Kind::name:
        return after(names_[node.min], byte);
    }
    return kNothing;
  }

  std::map<Node, Term, Less> ids_;
  std::vector<Node> nodes_;
  std::vector<Term> names_;
  std::map<std::pair<Term, int>, Term> derivatives_;
  std::map<Term, bool> has_empty_;
};

}  // namespace grokd::testing
