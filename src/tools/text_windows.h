// A text cut into the windows that a profile runs: consecutive, each with the tokens its tokenizer
// adds.
#pragma once

#include <cstdint>
#include <vector>

#include "fourfold/tools.h"
#include "tools/model_place.h"

namespace fourfold {

struct TextWindows {
  static constexpr std::int64_t kAddedFront = -1, kAddedBack = -2;  // [CLS] and [SEP]

  std::vector<std::int32_t> ids;  // the text without added tokens, cut to max_tokens
  std::uint64_t total = 0;        // tokens of the whole text
  std::uint64_t seq_len = 0;      // of a full window, added tokens included
  struct Window {
    std::size_t first = 0, count = 0;  // into ids
    bool full = false;
  };
  std::vector<Window> windows;
  // Of each counted token, in the order of counting: its index in ids, or kAddedFront, kAddedBack.
  std::vector<std::int64_t> counted_positions;
};

// One forward pass: some windows, one after the other.
struct WindowBatch {
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> lengths;
  std::vector<char> counted;  // per row
  bool full = true;           // every window full, and as many as asked for
};

// Throws Error{invalid_argument} for an empty text, a seq_len without room, ids outside the
// vocabulary.
TextWindows cut_text(const LoadedEncoder& model, const ProfileOptions& options);
std::vector<WindowBatch> make_batches(const TextWindows& text, const WordPieceTokenizer& tokenizer,
                                      const ProfileOptions& options);

}  // namespace fourfold
