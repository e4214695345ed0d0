// tokenizer.json wins; else vocab.txt, one piece a line, its line number being its id.
#include "models/wordpiece_file.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "formats/file_error.h"
#include "formats/json_reader.h"
#include "formats/limits.h"
#include "formats/utf8.h"
#include "platform/mapped_file.h"

namespace fourfold {
namespace {

namespace dom = simdjson::dom;

constexpr std::int64_t kMaxId = std::numeric_limits<std::int32_t>::max();
// Words longer than this are of no use, and would make the search for pieces slow.
constexpr std::int64_t kMaxWordChars = 1000;
constexpr std::size_t kMaxNormalizerSteps = 32;

[[noreturn]] void fail(const std::string& path, const char* rule, const std::string& text,
                       ErrorCode code = ErrorCode::bad_file) {
  throw file_error({.path = path, .rule = rule, .tensor = {}}, text, code);
}

[[noreturn]] void fail_unsupported(const std::string& path, const std::string& text) {
  fail(path, "", text, ErrorCode::unsupported);
}

std::string read_bytes(const std::string& path, std::uint64_t max_bytes) {
  const MappedFile file(path, FileAccess::pread);
  if (file.size() > max_bytes)
    fail(path, "T1", fmt::format("the file has {} bytes, allowed are {}", file.size(), max_bytes));
  std::string bytes(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

struct JsonFile {
  JsonDocument document;
  dom::object root;
  const std::string& path() const { return document.source().path; }
};

JsonFile read_json(const std::string& path, std::uint64_t max_bytes) {
  JsonFile json{read_json_file(path, "T1", max_bytes), {}};
  if (json.document.root().get(json.root))
    fail(path, "T1",
         fmt::format("expected a JSON object, found {}", json_type_name(json.document.root())));
  return json;
}

// The member, or nothing when it is absent or null.
std::optional<dom::element> member(dom::object object, std::string_view key) {
  const auto value = json_field(object, key);
  return value && value->is_null() ? std::nullopt : value;
}

// Members with a type: absent or null gives the default, another type is an error.
template <class T>
T value_or(const JsonFile& json, dom::object object, std::string_view key, T fallback,
           const char* expected) {
  const auto value = member(object, key);
  if (!value) return fallback;
  T result{};
  if (value->get(result))
    fail(json.path(), "T1",
         fmt::format("\"{}\" is {}, expected {}", key, json_type_name(*value), expected));
  return result;
}

bool flag_or(const JsonFile& json, dom::object object, std::string_view key, bool fallback) {
  return value_or<bool>(json, object, key, fallback, "true or false");
}

std::string_view text_or(const JsonFile& json, dom::object object, std::string_view key,
                         std::string_view fallback) {
  return value_or<std::string_view>(json, object, key, fallback, "a string");
}

dom::object object_at(const JsonFile& json, dom::object object, std::string_view key) {
  dom::object result;
  if (object[key].get(result))
    fail(json.path(), "T1", fmt::format("expected an object under \"{}\"", key));
  return result;
}

std::int32_t checked_id(const JsonFile& json, dom::element value, std::string_view piece) {
  std::int64_t id = 0;
  if (value.get(id) || id < 0 || id > kMaxId)
    fail(json.path(), "T2",
         fmt::format("the id of \"{}\" is not an integer from 0 to {}", printable(piece), kMaxId));
  return static_cast<std::int32_t>(id);
}

void check_count(const std::string& path, std::size_t count) {
  if (count > limits::kVocabulary)
    fail(path, "T1", fmt::format("more than {} pieces", limits::kVocabulary));
}

// Names to ids while the file is read, so that every piece and every id is taken once.
class Vocabulary {
 public:
  Vocabulary(const std::string& path, WordPieceFile& file) : path_(path), file_(file) {}

  void add(std::string_view piece, std::int32_t id) {
    check_count(path_, file_.pieces.size() + 1);
    file_.pieces.emplace_back(id, piece);
    if (!ids_.try_emplace(std::string(piece), id).second)
      fail(path_, "T2", fmt::format("the piece \"{}\" appears twice", printable(piece)));
    take(piece, id);
  }

  // An added token either names a piece with that piece's id, or has an id of its own.
  void add_token(AddedToken token) {
    const auto known = ids_.find(token.content);
    if (known == ids_.end()) {
      check_count(path_, ids_.size() + 1);
      ids_.emplace(token.content, token.id);
      take(token.content, token.id);
    } else if (known->second != token.id) {
      fail(path_, "T2",
           fmt::format("the added token \"{}\" has the id {}, in the vocabulary it is {}",
                       printable(token.content), token.id, known->second));
    }
    file_.added.push_back(std::move(token));
  }

  bool has(const std::string& piece) const { return ids_.contains(piece); }

  std::int32_t id_of(std::string_view piece) const {
    const auto found = ids_.find(std::string(piece));
    if (found == ids_.end())
      fail(path_, "T2",
           fmt::format("the vocabulary has no \"{}\", which a BERT tokenizer needs",
                       printable(piece)));
    return found->second;
  }

 private:
  void take(std::string_view piece, std::int32_t id) {
    const auto [owner, is_new] = names_.try_emplace(id, piece);
    if (!is_new)
      fail(path_, "T2",
           fmt::format("the id {} belongs to \"{}\" and to \"{}\"", id, printable(owner->second),
                       printable(piece)));
  }

  const std::string& path_;
  WordPieceFile& file_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_map<std::int32_t, std::string> names_;
};

void add_bert_steps(std::vector<NormalizerStep>& steps, bool clean_text, bool cjk,
                    bool strip_accents, bool lowercase) {
  if (clean_text) steps.push_back(NormalizerStep::clean_text);
  if (cjk) steps.push_back(NormalizerStep::separate_cjk);
  if (strip_accents) {
    steps.push_back(NormalizerStep::decompose);
    steps.push_back(NormalizerStep::strip_accents);
  }
  if (lowercase) steps.push_back(NormalizerStep::lowercase);
}

void read_normalizer(const JsonFile& json, dom::object normalizer,
                     std::vector<NormalizerStep>& steps) {
  if (steps.size() > kMaxNormalizerSteps)
    fail_unsupported(json.path(),
                     fmt::format("more than {} normalizer steps", kMaxNormalizerSteps));
  const std::string_view type = text_or(json, normalizer, "type", "");
  if (type == "BertNormalizer") {
    const bool lowercase = flag_or(json, normalizer, "lowercase", true);
    add_bert_steps(steps, flag_or(json, normalizer, "clean_text", true),
                   flag_or(json, normalizer, "handle_chinese_chars", true),
                   flag_or(json, normalizer, "strip_accents", lowercase), lowercase);
  } else if (type == "Lowercase") {
    steps.push_back(NormalizerStep::lowercase);
  } else if (type == "NFD") {
    steps.push_back(NormalizerStep::decompose);
  } else if (type == "Sequence") {
    dom::array parts;
    if (normalizer["normalizers"].get(parts))
      fail(json.path(), "T1", "expected an array under \"normalizers\"");
    for (const dom::element part : parts) {
      dom::object object;
      if (part.get(object)) fail(json.path(), "T1", "a member of \"normalizers\" is not an object");
      read_normalizer(json, object, steps);
    }
  } else {
    fail_unsupported(json.path(),
                     fmt::format("the normalizer \"{}\"; supported are BertNormalizer, Lowercase, "
                                 "NFD and a Sequence of them",
                                 printable(type)));
  }
}

void read_added_tokens(const JsonFile& json, Vocabulary& vocabulary) {
  const auto list = member(json.root, "added_tokens");
  if (!list) return;
  dom::array tokens;
  if (list->get(tokens)) fail(json.path(), "T1", "\"added_tokens\" is not an array");
  for (const dom::element element : tokens) {
    dom::object object;
    if (element.get(object)) fail(json.path(), "T1", "an added token is not an object");
    AddedToken token;
    token.content = text_or(json, object, "content", "");
    if (token.content.empty()) fail(json.path(), "T1", "an added token has no content");
    if (token.content.size() > limits::kAddedTokenBytes)
      fail(json.path(), "T1",
           fmt::format("an added token has {} bytes, allowed are {}", token.content.size(),
                       limits::kAddedTokenBytes));
    dom::element id;
    if (object["id"].get(id))
      fail(json.path(), "T2",
           fmt::format("the added token \"{}\" has no id", printable(token.content)));
    token.id = checked_id(json, id, token.content);
    token.special = flag_or(json, object, "special", false);
    token.normalized = flag_or(json, object, "normalized", !token.special);
    token.single_word = flag_or(json, object, "single_word", false);
    token.lstrip = flag_or(json, object, "lstrip", false);
    token.rstrip = flag_or(json, object, "rstrip", false);
    vocabulary.add_token(std::move(token));
  }
}

// The token before or after one text; the id as the post-processor gives it.
struct AddedAround {
  std::string name;
  std::int64_t id = 0;
};
struct AroundText {
  AddedAround begin, end;
};

// {"SpecialToken": {"id": name, "type_id": 0}} with its id in special_tokens; nothing for anything
// else.
std::optional<AddedAround> template_token(dom::element item, dom::object processor) {
  std::string_view name;
  std::int64_t type = 0, id = 0;
  dom::array ids;
  if (item["SpecialToken"]["id"].get(name) || item["SpecialToken"]["type_id"].get(type) ||
      type != 0)
    return {};
  dom::object known;
  if (processor["special_tokens"].get(known) || known[name]["ids"].get(ids) || ids.size() != 1 ||
      ids.at(0).get(id))
    return {};
  return AddedAround{std::string(name), id};
}

// [name, id]
std::optional<AddedAround> pair_token(dom::object processor, const char* key) {
  std::string_view name;
  std::int64_t id = 0;
  dom::array pair;
  if (processor[key].get(pair) || pair.size() != 2 || pair.at(0).get(name) || pair.at(1).get(id))
    return {};
  return AddedAround{std::string(name), id};
}

// Which tokens stand before and after one text. Anything but BERT's one and one is refused, not
// guessed.
AroundText read_post_processor(const JsonFile& json) {
  const auto element = member(json.root, "post_processor");
  dom::object processor;
  std::string_view type = "none";
  if (element) {
    if (element->get(processor)) fail(json.path(), "T1", "\"post_processor\" is not an object");
    type = text_or(json, processor, "type", "");
  }
  std::optional<AddedAround> begin, end;
  dom::array single;
  if (type == "BertProcessing") {
    begin = pair_token(processor, "cls");
    end = pair_token(processor, "sep");
  } else if (type == "TemplateProcessing" && !processor["single"].get(single) &&
             single.size() == 3) {
    std::string_view sequence;
    std::int64_t text_type = 0;
    const bool one_text = !single.at(1)["Sequence"]["id"].get(sequence) && sequence == "A" &&
                          !single.at(1)["Sequence"]["type_id"].get(text_type) && text_type == 0;
    if (one_text) {
      begin = template_token(single.at(0), processor);
      end = template_token(single.at(2), processor);
    }
  }
  if (begin && end) return {*begin, *end};
  fail_unsupported(
      json.path(),
      fmt::format("the post-processor \"{}\" does not put one token before and one after the "
                  "text, all of type 0, as BERT does",
                  printable(type)));
}

void read_model(const JsonFile& json, WordPieceFile& file, Vocabulary& vocabulary) {
  const dom::object model = object_at(json, json.root, "model");
  const std::string_view type = text_or(json, model, "type", "");
  if (type != "WordPiece")
    fail_unsupported(json.path(), fmt::format("the tokenizer model \"{}\"; supported is WordPiece",
                                              printable(type)));
  for (const auto& [piece, id] : object_at(json, model, "vocab"))
    vocabulary.add(piece, checked_id(json, id, piece));
  file.unknown_id = vocabulary.id_of(text_or(json, model, "unk_token", "[UNK]"));
  file.continuing_prefix = text_or(json, model, "continuing_subword_prefix", "##");
  const auto chars =
      value_or<std::int64_t>(json, model, "max_input_chars_per_word", 100, "an integer");
  if (chars < 0 || chars > kMaxWordChars)
    fail(json.path(), "T1",
         fmt::format("\"max_input_chars_per_word\" is {}, allowed are 0 to {}", chars,
                     kMaxWordChars));
  file.max_word_chars = static_cast<std::size_t>(chars);
}

WordPieceFile read_tokenizer_json(const std::string& path) {
  const JsonFile json = read_json(path, limits::kTokenizerBytes);
  WordPieceFile file;
  Vocabulary vocabulary(path, file);
  read_model(json, file, vocabulary);
  read_added_tokens(json, vocabulary);
  if (member(json.root, "normalizer"))
    read_normalizer(json, object_at(json, json.root, "normalizer"), file.normalizer);
  const auto cutter = member(json.root, "pre_tokenizer");
  std::string_view cutter_type = "none";
  if (cutter) cutter_type = text_or(json, object_at(json, json.root, "pre_tokenizer"), "type", "");
  if (cutter_type != "BertPreTokenizer")
    fail_unsupported(path, fmt::format("the pre-tokenizer \"{}\"; supported is BertPreTokenizer",
                                       printable(cutter_type)));
  const AroundText around = read_post_processor(json);
  const auto checked = [&](const AddedAround& token) {
    const std::int32_t id = vocabulary.id_of(token.name);
    if (id != token.id)
      fail(path, "T2",
           fmt::format("\"{}\" has id {} in the vocabulary and {} in the post-processor",
                       printable(token.name), id, token.id));
    return id;
  };
  file.begin_id = checked(around.begin);
  file.end_id = checked(around.end);
  return file;
}

// A special token's name: a string, or an object with "content".
std::string token_name(const std::optional<JsonFile>& config, const char* key,
                       const char* fallback) {
  if (!config) return fallback;
  const auto value = member(config->root, key);
  if (!value) return fallback;
  std::string_view name;
  if (value->get(name) && (*value)["content"].get(name))
    fail(config->path(), "T1", fmt::format("\"{}\" is not a string", key));
  return std::string(name);
}

void check_tokenizer_class(const JsonFile& config) {
  constexpr std::array<std::string_view, 5> kKnown = {"BertTokenizer", "DistilBertTokenizer",
                                                      "ElectraTokenizer", "MobileBertTokenizer",
                                                      "RetriBertTokenizer"};
  std::string_view name = text_or(config, config.root, "tokenizer_class", kKnown[0]);
  if (name.ends_with("Fast")) name.remove_suffix(4);
  if (std::find(kKnown.begin(), kKnown.end(), name) == kKnown.end())
    fail_unsupported(config.path(),
                     fmt::format("the tokenizer class \"{}\" with a vocab.txt; supported are "
                                 "BertTokenizer and its namesakes",
                                 printable(name)));
}

void read_vocabulary_lines(const std::string& path, Vocabulary& vocabulary) {
  const std::string text = read_bytes(path, limits::kTokenizerBytes);
  if (const std::size_t bad = first_invalid_utf8(text); bad != std::string::npos)
    throw file_error({.path = path, .rule = "T5", .tensor = {}, .offset = bad}, "not UTF-8");
  std::int32_t id = 0;
  for (std::size_t at = 0; at < text.size(); ++id) {
    check_count(path, static_cast<std::size_t>(id) + 1);
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) vocabulary.add(line, id);  // an empty line takes up its id
    at = end + 1;
  }
}

WordPieceFile read_vocab_txt(const std::string& path, const std::string& config_path) {
  WordPieceFile file;
  Vocabulary vocabulary(path, file);
  read_vocabulary_lines(path, vocabulary);

  std::optional<JsonFile> config;
  bool clean = true, cjk = true, lowercase = true, strip = true;
  if (file_is_there(config_path)) {
    config = read_json(config_path, limits::kConfigBytes);
    check_tokenizer_class(*config);
    const dom::object root = config->root;
    clean = flag_or(*config, root, "clean_text", true);
    lowercase = flag_or(*config, root, "do_lower_case", true);
    strip = flag_or(*config, root, "strip_accents", lowercase);
    cjk = flag_or(*config, root, "tokenize_chinese_chars", true);
  }
  add_bert_steps(file.normalizer, clean, cjk, strip, lowercase);

  const std::string unknown = token_name(config, "unk_token", "[UNK]");
  const std::string begin = token_name(config, "cls_token", "[CLS]");
  const std::string end = token_name(config, "sep_token", "[SEP]");
  file.unknown_id = vocabulary.id_of(unknown);
  file.begin_id = vocabulary.id_of(begin);
  file.end_id = vocabulary.id_of(end);
  for (const std::string& name : {unknown, begin, end, token_name(config, "pad_token", "[PAD]"),
                                  token_name(config, "mask_token", "[MASK]")}) {
    if (!vocabulary.has(name)) continue;
    AddedToken token;
    token.content = name;
    token.id = vocabulary.id_of(name);
    token.special = true;
    vocabulary.add_token(std::move(token));
  }
  return file;
}

}  // namespace

WordPieceFile read_wordpiece_file(const std::string& folder) {
  const std::filesystem::path base(folder);
  const std::string json_path = (base / "tokenizer.json").string();
  const std::string vocab_path = (base / "vocab.txt").string();
  WordPieceFile file;
  if (file_is_there(json_path)) {
    file = read_tokenizer_json(json_path);
  } else if (file_is_there(vocab_path)) {
    file = read_vocab_txt(vocab_path, (base / "tokenizer_config.json").string());
  } else {
    fail(folder, "", "the folder has no tokenizer.json and no vocab.txt", ErrorCode::io);
  }
  std::sort(file.pieces.begin(), file.pieces.end());
  return file;
}

}  // namespace fourfold
