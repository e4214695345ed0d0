// The files that define a WordPiece tokenizer: tokenizer.json, or vocab.txt with
// tokenizer_config.json. Rules T1, T2 and T5 of docs/formats.md are checked here, before any text
// is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/added_tokens.h"
#include "models/text_normalizer.h"

namespace fourfold {

struct WordPieceFile {
  std::vector<std::pair<std::int32_t, std::string>>
      pieces;                     // the vocabulary, by id; no id or piece twice
  std::vector<AddedToken> added;  // may repeat pieces of the vocabulary, with their ids
  std::vector<NormalizerStep> normalizer;
  std::string continuing_prefix = "##";
  std::size_t max_word_chars = 100;                       // a longer word is the unknown token
  std::int32_t unknown_id = 0, begin_id = 0, end_id = 0;  // [UNK], [CLS], [SEP]
};

// Throws Error{io} when the folder has neither file or one cannot be read, Error{bad_file} (path,
// rule), and Error{unsupported} naming a model, normalizer, pre-tokenizer or post-processor that is
// not BERT's.
WordPieceFile read_wordpiece_file(const std::string& folder);

}  // namespace fourfold
