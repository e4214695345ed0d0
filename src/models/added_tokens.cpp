// A hash look-up for each length that occurs, at places whose first character may start a token.
#include "models/added_tokens.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "models/bert_characters.h"

namespace fourfold {

void AddedTokenFinder::add(std::u32string content, const AddedToken& token) {
  if (content.empty()) return;
  const std::size_t length = content.size();
  first_bytes_[content.front() & 0xFFU] = true;
  if (!tokens_.try_emplace(std::move(content), token).second) return;
  const auto place = std::lower_bound(lengths_.begin(), lengths_.end(), length, std::greater<>());
  if (place == lengths_.end() || *place != length) lengths_.insert(place, length);
}

const AddedToken* AddedTokenFinder::longest_at(std::u32string_view text, std::size_t at,
                                               std::size_t& length) const {
  if (!first_bytes_[text[at] & 0xFFU]) return nullptr;
  for (const std::size_t candidate : lengths_) {
    if (candidate > text.size() - at) continue;
    const auto found = tokens_.find(text.substr(at, candidate));
    if (found == tokens_.end()) continue;
    length = candidate;
    return &found->second;
  }
  return nullptr;
}

std::vector<TextSpan> AddedTokenFinder::split(std::u32string_view text) const {
  std::vector<TextSpan> spans;
  std::size_t done = 0;
  for (std::size_t at = tokens_.empty() ? text.size() : 0; at < text.size();) {
    std::size_t length = 0;
    const AddedToken* token = longest_at(text, at, length);
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + length;
    at = end;
    const bool touched = (begin > 0 && is_word_character(text[begin - 1])) ||
                         (end < text.size() && is_word_character(text[end]));
    if (begin < done || (token->single_word && touched)) continue;
    while (token->lstrip && begin > done && is_white_space(text[begin - 1])) --begin;
    while (token->rstrip && end < text.size() && is_white_space(text[end])) ++end;
    if (begin > done) spans.push_back({done, begin, TextSpan::kPlain});
    spans.push_back({begin, end, token->id});
    done = end;
  }
  if (done < text.size()) spans.push_back({done, text.size(), TextSpan::kPlain});
  return spans;
}

}  // namespace fourfold
