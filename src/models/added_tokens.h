// Tokens that are cut out of a text before the words are: "[CLS]", "[MASK]" and others that a model
// adds. At each place the longest one wins; matches do not overlap.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fourfold {

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = false;
  bool normalized = false;   // looked for in the normalised text, not in the raw one
  bool single_word = false;  // only where no letter, digit or mark touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // and after it
};

// A stretch of the text: an added token, or plain text when id is kPlain.
struct TextSpan {
  static constexpr std::int32_t kPlain = -1;
  std::size_t begin, end;
  std::int32_t id;
};

class AddedTokenFinder {
 public:
  // content: what to look for, decoded (and normalised, if the token is). The first of two equal
  // ones wins.
  void add(std::u32string content, const AddedToken& token);

  // Spans that cover the text from its beginning to its end.
  std::vector<TextSpan> split(std::u32string_view text) const;

 private:
  const AddedToken* longest_at(std::u32string_view text, std::size_t at, std::size_t& length) const;

  std::vector<std::pair<std::u32string, AddedToken>> tokens_;  // sorted
  std::array<bool, 256> first_bytes_{};                        // low bytes of first characters
};

}  // namespace fourfold
