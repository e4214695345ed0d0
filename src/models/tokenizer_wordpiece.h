// WordPiece, BERT's tokenizer: clean, split CJK, lower-case, strip accents, split punctuation, then
// greedy longest-match pieces (Wu et al. 2016, arXiv 1609.08144; Devlin et al. 2018, arXiv
// 1810.04805).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/added_tokens.h"
#include "models/text_normalizer.h"
#include "models/wordpiece_file.h"

namespace fourfold {

// Immutable once opened: any number of threads may use one tokenizer.
class WordPieceTokenizer {
 public:
  // Reads folder/tokenizer.json, else folder/vocab.txt with tokenizer_config.json's do_lower_case.
  // Throws Error{bad_file} (path, rule T1, T2, T5), Error{unsupported} for another kind of
  // tokenizer, Error{io} when the files are not there or cannot be read.
  static WordPieceTokenizer open(const std::string& folder);

  // Ids of the text without added tokens; special tokens written out in the text ("[MASK]") are
  // recognised. Invalid UTF-8 is read as U+FFFD. Truncation and padding settings of the file are
  // ignored.
  std::vector<std::int32_t> encode(std::string_view text) const;
  // [CLS] ids [SEP]
  std::vector<std::int32_t> with_added_tokens(const std::vector<std::int32_t>& ids) const;
  std::size_t added_tokens() const { return 2; }

  std::size_t vocab_size() const;                 // highest id + 1
  std::string_view piece(std::int32_t id) const;  // empty for an id without a piece
  std::string_view continuing_prefix() const { return continuing_prefix_; }  // "##" for BERT

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  // Piece to id, and the longest piece in characters: no longer one need be tried.
  struct PieceMap {
    std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids;
    std::size_t max_chars = 0;
    void add(std::string_view piece, std::int32_t id);
  };
  struct Scratch;

  explicit WordPieceTokenizer(WordPieceFile file);
  void encode_plain(std::u32string_view raw, Scratch& scratch,
                    std::vector<std::int32_t>& ids) const;
  void encode_words(std::u32string_view text, Scratch& scratch,
                    std::vector<std::int32_t>& ids) const;
  void encode_word(std::u32string_view word, Scratch& scratch,
                   std::vector<std::int32_t>& ids) const;

  std::vector<std::pair<std::int32_t, std::string>> pieces_;  // by id, added tokens included
  PieceMap first_, next_;  // pieces that begin a word; pieces inside it, without their prefix
  AddedTokenFinder raw_tokens_, normalized_tokens_;
  TextNormalizer normalizer_;
  std::size_t max_word_chars_;
  std::string continuing_prefix_;
  std::int32_t unknown_id_, begin_id_, end_id_;
};

}  // namespace fourfold
