// A walk through the sorted tokens, at places whose first character may start one.
#include "models/added_tokens.h"

#include <algorithm>
#include <utility>

#include "models/bert_characters.h"

namespace fourfold {

void AddedTokenFinder::add(std::u32string content, const AddedToken& token) {
  if (content.empty()) return;
  const auto place =
      std::lower_bound(tokens_.begin(), tokens_.end(), content,
                       [](const auto& known, const auto& text) { return known.first < text; });
  if (place != tokens_.end() && place->first == content) return;
  first_bytes_[content.front() & 0xFFU] = true;
  tokens_.emplace(place, std::move(content), token);
}

// The tokens that begin with the text's first n characters are neighbours; each further character
// narrows their range.
const AddedToken* AddedTokenFinder::longest_at(std::u32string_view text, std::size_t at,
                                               std::size_t& length) const {
  if (!first_bytes_[text[at] & 0xFFU]) return nullptr;
  const AddedToken* best = nullptr;
  auto first = tokens_.begin(), last = tokens_.end();
  for (std::size_t n = 0; at + n < text.size(); ++n) {
    const char32_t c = text[at + n];
    first = std::partition_point(first, last, [&](const auto& token) {
      return token.first.size() == n || token.first[n] < c;
    });
    last =
        std::partition_point(first, last, [&](const auto& token) { return token.first[n] == c; });
    if (first == last) break;
    if (first->first.size() > n + 1) continue;
    length = n + 1;
    best = &first->second;
  }
  return best;
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
