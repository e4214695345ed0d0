// What BERT's tokenizer does to text before it cuts words: cleaning, ideographs apart, accents off,
// lower case. Text is a sequence of code points here, one char32_t each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fourfold {

// Decodes UTF-8. Each ill-formed sequence (the longest broken prefix) is one U+FFFD.
std::u32string decode_utf8(std::string_view text);
// Appends one code point (a Unicode scalar value).
void append_utf8(std::string& out, char32_t c);

enum class NormalizerStep {
  clean_text,     // controls away, every white space becomes a space
  separate_cjk,   // spaces around ideographs
  decompose,      // canonical decomposition, NFD
  strip_accents,  // nonspacing marks away; of use after decompose
  lowercase       // each character by itself: a final sigma is as any sigma
};

class TextNormalizer {
 public:
  TextNormalizer() = default;
  explicit TextNormalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  std::u32string apply(std::u32string_view text) const;

 private:
  std::vector<NormalizerStep> steps_;  // in the order in which they run
};

}  // namespace fourfold
