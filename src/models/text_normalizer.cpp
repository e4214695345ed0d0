// Decomposition comes from utf8proc; all classes of characters from bert_characters.
#include "models/text_normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "formats/utf8.h"
#include "models/bert_characters.h"

namespace fourfold {
namespace {

std::u32string clean(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : text)
    if (!is_removed_by_clean_text(c)) out.push_back(is_white_space(c) ? U' ' : c);
  return out;
}

std::u32string separate_cjk(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    if (!is_cjk(c)) {
      out.push_back(c);
      continue;
    }
    out.push_back(U' ');
    out.push_back(c);
    out.push_back(U' ');
  }
  return out;
}

// Characters whose decomposition is younger than the reference tokenizer's tables (Unicode 13, 16
// and 17).
bool is_kept_whole(char32_t c) {
  if (c < 0x105C9) return false;
  return c == 0x11938 || c == 0x105C9 || c == 0x105E4 || (c >= 0x11383 && c <= 0x11391) ||
         (c >= 0x113C5 && c <= 0x113C8) || (c >= 0x16121 && c <= 0x16128) ||
         (c >= 0x16D68 && c <= 0x16D6A);
}

unsigned combining_class(char32_t c) {
  if (c < 0x300) return 0;
  return static_cast<unsigned>(
      utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class);
}

// Each run of characters with a combining class above 0 is sorted by class, equal classes staying
// in order.
void order_marks(std::u32string& text) {
  for (std::size_t i = 0; i < text.size();) {
    if (combining_class(text[i]) == 0) {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(i),
                     text.begin() + static_cast<std::ptrdiff_t>(end), [](char32_t a, char32_t b) {
                       return combining_class(a) < combining_class(b);
                     });
    i = end;
  }
}

std::u32string decompose(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size() + text.size() / 8);
  std::array<utf8proc_int32_t, 32> parts{};
  for (const char32_t c : text) {
    if (c < 0xC0 || is_kept_whole(c)) {
      out.push_back(c);
      continue;
    }
    int boundary = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                               static_cast<utf8proc_ssize_t>(parts.size()),
                                               UTF8PROC_DECOMPOSE, &boundary);
    if (count < 1 || count > static_cast<utf8proc_ssize_t>(parts.size())) {
      out.push_back(c);
      continue;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      out.push_back(static_cast<char32_t>(parts[i]));
  }
  order_marks(out);
  return out;
}

struct CaseRange {
  char32_t first, last, lower;  // lower is that of first; the others follow one by one
};

// Capitals of Unicode 16 and 17, which the reference tokenizer knows and utf8proc 2.8 does not.
constexpr std::array<CaseRange, 10> kYoungCapitals{{{0x1C89, 0x1C89, 0x1C8A},
                                                    {0xA7CB, 0xA7CB, 0x264},
                                                    {0xA7CC, 0xA7CC, 0xA7CD},
                                                    {0xA7CE, 0xA7CE, 0xA7CF},
                                                    {0xA7D2, 0xA7D2, 0xA7D3},
                                                    {0xA7D4, 0xA7D4, 0xA7D5},
                                                    {0xA7DA, 0xA7DA, 0xA7DB},
                                                    {0xA7DC, 0xA7DC, 0x19B},
                                                    {0x10D50, 0x10D65, 0x10D70},
                                                    {0x16EA0, 0x16EB8, 0x16EBB}}};

char32_t lower_of(char32_t c) {
  if (c < 0x80) return c >= U'A' && c <= U'Z' ? c + 0x20 : c;
  for (const CaseRange& range : kYoungCapitals)
    if (c >= range.first && c <= range.last) return range.lower + (c - range.first);
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::u32string lowercase(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    out.push_back(c == 0x130 ? U'i' : lower_of(c));
    if (c == 0x130)
      out.push_back(
          0x307);  // I with a dot above: the only capital whose lower case is two characters
  }
  return out;
}

std::u32string run(NormalizerStep step, std::u32string text) {
  switch (step) {
    case NormalizerStep::clean_text: return clean(text);
    case NormalizerStep::separate_cjk: return separate_cjk(text);
    case NormalizerStep::decompose: return decompose(text);
    case NormalizerStep::strip_accents: std::erase_if(text, is_accent); return text;
    case NormalizerStep::lowercase: return lowercase(text);
  }
  return text;
}

}  // namespace

std::u32string decode_utf8(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    if (const auto byte = static_cast<unsigned char>(text[at]); byte < 0x80) {
      out.push_back(byte);
      ++at;
      continue;
    }
    const Utf8Step step = utf8_step(text, at);
    out.push_back(step.code);
    at += step.length;
  }
  return out;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6U));
    put(0x80 | (c & 0x3FU));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12U));
    put(0x80 | ((c >> 6U) & 0x3FU));
    put(0x80 | (c & 0x3FU));
  } else {
    put(0xF0 | (c >> 18U));
    put(0x80 | ((c >> 12U) & 0x3FU));
    put(0x80 | ((c >> 6U) & 0x3FU));
    put(0x80 | (c & 0x3FU));
  }
}

std::u32string TextNormalizer::apply(std::u32string_view text) const {
  std::u32string result(text);
  for (const NormalizerStep step : steps_) result = run(step, std::move(result));
  return result;
}

}  // namespace fourfold
