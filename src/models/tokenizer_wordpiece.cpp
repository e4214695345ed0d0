// Added tokens are cut out of the raw text, the rest is normalised and cut into words, each word
// into pieces.
#include "models/tokenizer_wordpiece.h"

#include <algorithm>

#include "models/bert_characters.h"

namespace fourfold {

// Buffers that live through one encode.
struct WordPieceTokenizer::Scratch {
  std::string bytes;                // the word in UTF-8
  std::vector<std::size_t> starts;  // byte offset of each character, and the end
};

void WordPieceTokenizer::PieceMap::add(std::string_view piece, std::int32_t id) {
  ids.try_emplace(std::string(piece), id);
  const auto continues = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80;
  };
  const auto rest = std::count_if(piece.begin(), piece.end(), continues);
  max_chars = std::max(max_chars, piece.size() - static_cast<std::size_t>(rest));
}

WordPieceTokenizer WordPieceTokenizer::open(const std::string& folder) {
  return WordPieceTokenizer(read_wordpiece_file(folder));
}

WordPieceTokenizer::WordPieceTokenizer(WordPieceFile file)
    : pieces_(std::move(file.pieces)),
      normalizer_(std::move(file.normalizer)),
      max_word_chars_(file.max_word_chars),
      continuing_prefix_(std::move(file.continuing_prefix)),
      unknown_id_(file.unknown_id),
      begin_id_(file.begin_id),
      end_id_(file.end_id) {
  const std::string_view prefix = continuing_prefix_;
  for (const auto& [id, name] : pieces_) {
    first_.add(name, id);
    if (name.starts_with(prefix)) next_.add(std::string_view(name).substr(prefix.size()), id);
  }
  // Of two tokens that normalise to the same text the special one wins, then the earlier one.
  std::stable_partition(file.added.begin(), file.added.end(),
                        [](const AddedToken& token) { return token.special; });
  for (const AddedToken& token : file.added) {
    const std::u32string content = decode_utf8(token.content);
    if (token.normalized) {
      normalized_tokens_.add(normalizer_.apply(content), token);
    } else {
      raw_tokens_.add(content, token);
    }
    pieces_.emplace_back(token.id, token.content);
  }
  std::sort(pieces_.begin(), pieces_.end());
  pieces_.erase(std::unique(pieces_.begin(), pieces_.end()), pieces_.end());
}

std::vector<std::int32_t> WordPieceTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  Scratch scratch;
  const std::u32string decoded = decode_utf8(text);
  const std::u32string_view all = decoded;
  for (const TextSpan& span : raw_tokens_.split(all)) {
    if (span.id == TextSpan::kPlain) {
      encode_plain(all.substr(span.begin, span.end - span.begin), scratch, ids);
    } else {
      ids.push_back(span.id);
    }
  }
  return ids;
}

void WordPieceTokenizer::encode_plain(std::u32string_view raw, Scratch& scratch,
                                      std::vector<std::int32_t>& ids) const {
  const std::u32string normalized = normalizer_.apply(raw);
  const std::u32string_view all = normalized;
  for (const TextSpan& span : normalized_tokens_.split(all)) {
    if (span.id == TextSpan::kPlain) {
      encode_words(all.substr(span.begin, span.end - span.begin), scratch, ids);
    } else {
      ids.push_back(span.id);
    }
  }
}

void WordPieceTokenizer::encode_words(std::u32string_view text, Scratch& scratch,
                                      std::vector<std::int32_t>& ids) const {
  std::size_t begin = 0;
  const auto finish_word = [&](std::size_t end) {
    if (end > begin) encode_word(text.substr(begin, end - begin), scratch, ids);
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool punctuation = is_bert_punctuation(text[i]);
    if (!punctuation && !is_white_space(text[i])) continue;
    finish_word(i);
    if (punctuation) encode_word(text.substr(i, 1), scratch, ids);
    begin = i + 1;
  }
  finish_word(text.size());
}

void WordPieceTokenizer::encode_word(std::u32string_view word, Scratch& scratch,
                                     std::vector<std::int32_t>& ids) const {
  if (word.size() > max_word_chars_) {
    ids.push_back(unknown_id_);
    return;
  }
  scratch.bytes.clear();
  scratch.starts.clear();
  for (const char32_t c : word) {
    scratch.starts.push_back(scratch.bytes.size());
    append_utf8(scratch.bytes, c);
  }
  scratch.starts.push_back(scratch.bytes.size());

  const std::string_view bytes = scratch.bytes;
  const std::size_t before = ids.size();
  for (std::size_t at = 0; at < word.size();) {
    const PieceMap& map = at == 0 ? first_ : next_;
    std::size_t length = std::min(word.size() - at, map.max_chars);
    for (; length > 0; --length) {
      const std::size_t start = scratch.starts[at];
      const auto found = map.ids.find(bytes.substr(start, scratch.starts[at + length] - start));
      if (found == map.ids.end()) continue;
      ids.push_back(found->second);
      break;
    }
    if (length == 0) {  // one gap makes the whole word unknown
      ids.resize(before);
      ids.push_back(unknown_id_);
      return;
    }
    at += length;
  }
}

std::vector<std::int32_t> WordPieceTokenizer::with_added_tokens(
    const std::vector<std::int32_t>& ids) const {
  std::vector<std::int32_t> all;
  all.reserve(ids.size() + added_tokens());
  all.push_back(begin_id_);
  all.insert(all.end(), ids.begin(), ids.end());
  all.push_back(end_id_);
  return all;
}

std::size_t WordPieceTokenizer::vocab_size() const {
  return pieces_.empty() ? 0 : static_cast<std::size_t>(pieces_.back().first) + 1;
}

std::string_view WordPieceTokenizer::piece(std::int32_t id) const {
  const auto found =
      std::lower_bound(pieces_.begin(), pieces_.end(), id,
                       [](const auto& entry, std::int32_t x) { return entry.first < x; });
  if (found == pieces_.end() || found->first != id) return {};
  return found->second;
}

}  // namespace fourfold
