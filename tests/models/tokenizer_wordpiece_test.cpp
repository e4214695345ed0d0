// WordPiece on small vocabularies written here, with ids worked out by hand. Agreement with the
// reference tokenizer on a real vocabulary is the subject of tests/python/test_tokenizer_parity.py.
#include "models/tokenizer_wordpiece.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "fourfold/error.h"

namespace {

using fourfold::Error;
using fourfold::ErrorCode;
using fourfold::WordPieceTokenizer;
using Ids = std::vector<std::int32_t>;

// A folder that lives as long as the object.
class Folder {
 public:
  Folder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("fourfold_wordpiece_" + std::to_string(getpid()) + "_" + std::to_string(++count));
    std::filesystem::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const Folder& write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return *this;
  }
  std::string path() const { return path_.string(); }
  WordPieceTokenizer open() const { return WordPieceTokenizer::open(path()); }

 private:
  std::filesystem::path path_;
};

const char* const kVocab =
    R"({"[PAD]":0,"[UNK]":2,"[CLS]":3,"[SEP]":5,"[MASK]":7,"wet":11,"##ter":13,"w":17,"##a":19,"##e":23,
        "wa":29,"!":31,"\u6c34":37,"strasse":41,"i":43,"##\u0307":47,"]":53,"[":59,"mask":61,"##w":67,
        "caf":71,"\u00fc":73,"##\u00e9":79,"\u03c3":83,"##\u03b1":89,"##\u03c3":97,"W":101,"\ud83d\ude00":103})";
const char* const kSpecial =
    R"([{"id":2,"content":"[UNK]","special":true,"normalized":false},
        {"id":3,"content":"[CLS]","special":true,"normalized":false},
        {"id":7,"content":"[MASK]","special":true,"normalized":false},
        {"id":107,"content":"<new>","special":false,"normalized":false,"rstrip":true}])";
const char* const kUncased =
    R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true})";

const char* const kBert = R"({"type":"BertProcessing","cls":["[CLS]",3],"sep":["[SEP]",5]})";

struct Parts {
  std::string vocab = kVocab, normalizer = kUncased, cutter = R"({"type":"BertPreTokenizer"})";
  std::string added = kSpecial, around = kBert, type = R"("WordPiece")", more = "";
};

std::string json_of(const Parts& parts) {
  return R"({"truncation":{"max_length":2},"padding":{"strategy":{"Fixed":9}},"added_tokens":)" +
         parts.added + R"(,"normalizer":)" + parts.normalizer + R"(,"pre_tokenizer":)" +
         parts.cutter + R"(,"post_processor":)" + parts.around + R"(,"model":{"type":)" +
         parts.type + R"(,"unk_token":"[UNK]","continuing_subword_prefix":"##")" + parts.more +
         R"(,"vocab":)" + parts.vocab + "}}";
}

WordPieceTokenizer tokenizer_of(const Parts& parts) {
  const Folder folder;
  return folder.write("tokenizer.json", json_of(parts)).open();
}

Error error_of(const Folder& folder) {
  try {
    folder.open();
  } catch (const Error& error) {
    return error;
  }
  FAIL("opened without an error");
  return Error(ErrorCode::io, "");
}

Error error_of(const Parts& parts) {
  const Folder folder;
  Error error = error_of(folder.write("tokenizer.json", json_of(parts)));
  CHECK(error.path == folder.path() + "/tokenizer.json");
  return error;
}

std::string normalizer_of(bool clean, bool cjk, const char* strip, bool lower) {
  const auto name = [](bool flag) { return std::string(flag ? "true" : "false"); };
  return R"({"type":"BertNormalizer","clean_text":)" + name(clean) + R"(,"handle_chinese_chars":)" +
         name(cjk) + R"(,"strip_accents":)" + strip + R"(,"lowercase":)" + name(lower) + "}";
}

bool mentions(const Error& error, std::string_view text) {
  return std::string_view(error.what()).find(text) != std::string_view::npos;
}

}  // namespace

TEST_CASE("the longest piece wins, and one gap makes the whole word unknown") {
  const auto tokenizer = tokenizer_of({});
  CHECK(tokenizer.encode("water") == Ids{29, 13});
  CHECK(tokenizer.encode("wae") == Ids{29, 23});
  CHECK(tokenizer.encode("wwet") == Ids{2});
  CHECK(tokenizer.encode("waterx wet") == Ids{2, 11});
  CHECK(tokenizer.encode("ter") == Ids{2});
  CHECK(tokenizer.encode("").empty());
  CHECK(tokenizer.encode(" \t\r\n\xC2\xA0").empty());
  CHECK(tokenizer.with_added_tokens({29, 13}) == Ids{3, 29, 13, 5});
  CHECK(tokenizer.with_added_tokens({}) == Ids{3, 5});
}

TEST_CASE("ids and pieces, added tokens and holes included") {
  const auto tokenizer = tokenizer_of({});
  CHECK(tokenizer.vocab_size() == 108);
  CHECK(tokenizer.piece(13) == "##ter");
  CHECK(tokenizer.piece(107) == "<new>");
  for (const std::int32_t id : {1, 108, -1, INT32_MAX}) CHECK(tokenizer.piece(id).empty());
}

TEST_CASE("a moved or copied tokenizer still works") {
  auto first = tokenizer_of({});
  const WordPieceTokenizer copy = first;
  const WordPieceTokenizer moved = std::move(first);
  CHECK(copy.encode("water!") == Ids{29, 13, 31});
  CHECK(moved.encode("water!") == Ids{29, 13, 31});
}

TEST_CASE("punctuation and ideographs are words of their own") {
  const auto tokenizer = tokenizer_of({});
  CHECK(tokenizer.encode("wet!!water") == Ids{11, 31, 31, 29, 13});
  CHECK(tokenizer.encode("wet\xE6\xB0\xB4wet") == Ids{11, 37, 11});
  CHECK(tokenizer.encode("wet\xE2\x80\x94wet") == Ids{11, 2, 11});  // em dash
  CHECK(tokenizer.encode("\xF0\x9F\x98\x80") == Ids{103});
}

TEST_CASE("cleaning drops controls and makes every white space one") {
  const auto tokenizer = tokenizer_of({});
  using namespace std::string_view_literals;
  CHECK(tokenizer.encode("wa\0ter\x01\x7F"sv) == Ids{29, 13});
  CHECK(tokenizer.encode("wa\xE2\x80\x8Bter\xEF\xBB\xBF") == Ids{29, 13});  // U+200B, U+FEFF
  CHECK(tokenizer.encode("wet\twet\nwet\xE3\x80\x80wet") == Ids{11, 11, 11, 11});
}

TEST_CASE("accents go by decomposition, capitals one by one") {
  const auto tokenizer = tokenizer_of({});
  CHECK(tokenizer.encode("W\xC3\x84TER") == Ids{29, 13});
  CHECK(tokenizer.encode("wa\xCC\x88ter") == Ids{29, 13});
  CHECK(tokenizer.encode("\xC4\xB0") == Ids{43});                          // I with dot: i
  CHECK(tokenizer.encode("\xCE\xA3\xCE\x91\xCE\xA3") == Ids{83, 89, 97});  // no final sigma
  CHECK(tokenizer.encode("STRA\xC3\x9F"
                         "E") == Ids{2});  // sharp s stays
  CHECK(tokenizer.encode("STRASSE") == Ids{41});
}

TEST_CASE("each normaliser setting is obeyed") {
  SUBCASE("accents kept, lower case") {
    const auto tokenizer = tokenizer_of({.normalizer = normalizer_of(true, true, "false", true)});
    CHECK(tokenizer.encode("\xC4\xB0") == Ids{43, 47});  // the dot stays as a mark
    CHECK(tokenizer.encode("\xC3\x9C") == Ids{73});
    CHECK(tokenizer.encode("CAF\xC3\x89") == Ids{71, 79});
  }
  SUBCASE("null accents follow the case setting") {
    const auto tokenizer = tokenizer_of({.normalizer = normalizer_of(true, true, "null", false)});
    CHECK(tokenizer.encode("W w \xC3\xBC") == Ids{101, 17, 73});
  }
  SUBCASE("no cleaning, ideographs inside words") {
    const auto tokenizer = tokenizer_of({.normalizer = normalizer_of(false, false, "true", true)});
    CHECK(tokenizer.encode("wa\x01") == Ids{2});
    CHECK(tokenizer.encode("w\xE6\xB0\xB4") == Ids{2});
    CHECK(tokenizer.encode("wa\x0Bwet") == Ids{29, 11});  // a vertical tab still parts words
  }
  SUBCASE("a sequence runs its members in order") {
    const auto tokenizer = tokenizer_of(
        {.normalizer =
             R"({"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"Lowercase"}]})"});
    CHECK(tokenizer.encode("\xC4\xB0") == Ids{43, 47});
  }
  SUBCASE("none") {
    const auto tokenizer = tokenizer_of({.normalizer = "null"});
    CHECK(tokenizer.encode("W w") == Ids{101, 17});
  }
}

TEST_CASE("special tokens are found in the raw text") {
  const auto tokenizer = tokenizer_of({});
  CHECK(tokenizer.encode("[CLS] wet [MASK]") == Ids{3, 11, 7});
  CHECK(tokenizer.encode("wet[MASK][MASK]wet") == Ids{11, 7, 7, 11});
  CHECK(tokenizer.encode("[[MASK]]") == Ids{59, 7, 53});
  CHECK(tokenizer.encode("[mask]") == Ids{59, 61, 53});
  CHECK(tokenizer.encode("[SEP]") == Ids{59, 2, 53});  // not among the added tokens
  CHECK(tokenizer.encode("wet<new>  wet") == Ids{11, 107, 11});
}

TEST_CASE("flags of added tokens") {
  const auto tokenizer = tokenizer_of({.added = R"([
    {"id":107,"content":"<a>","normalized":false,"lstrip":true},
    {"id":109,"content":"<a><b>","normalized":false},
    {"id":113,"content":"lone","normalized":false,"single_word":true},
    {"id":127,"content":"H\u00c9","normalized":true}])"});
  CHECK(tokenizer.encode("wet  <a>wet") == Ids{11, 107, 11});
  CHECK(tokenizer.encode("<a><b><a>") == Ids{109, 107});
  CHECK(tokenizer.encode("lone!lone") == Ids{113, 31, 113});
  CHECK(tokenizer.encode("lonely") == Ids{2});
  CHECK(tokenizer.encode("lone7 _lone lone\xCC\x81") ==
        Ids{2, 2, 2, 2});  // the underscore is a word too
  CHECK(tokenizer.encode("wethE\xCC\x81wet") == Ids{11, 127, 11});
}

TEST_CASE("words longer than the limit are unknown") {
  SUBCASE("100 characters when the file says nothing") {
    const auto tokenizer = tokenizer_of({});
    const std::string tail(99, 'a');
    CHECK(tokenizer.encode("w" + tail).size() == 99);
    CHECK(tokenizer.encode("w" + tail + "a") == Ids{2});
    CHECK(tokenizer.encode("w" + tail + "\xCC\x81").size() == 99);  // counted after normalising
  }
  SUBCASE("the file's number") {
    const auto tokenizer = tokenizer_of({.more = R"(,"max_input_chars_per_word":5)"});
    CHECK(tokenizer.encode("water") == Ids{29, 13});
    CHECK(tokenizer.encode("watera") == Ids{2});
  }
}

TEST_CASE("ill-formed UTF-8 is U+FFFD, which cleaning drops") {
  const auto tokenizer = tokenizer_of({});
  for (const char* bad : {"\xFF", "\xC3", "\xE6\xB0", "\xED\xA0\x80", "\xC0\x80",
                          "\xF4\x90\x80\x80", "\xF0\x9F\x98"}) {
    CAPTURE(bad);
    CHECK(tokenizer.encode(std::string("wa") + bad + "ter") == Ids{29, 13});
    CHECK(tokenizer.encode(std::string("water") + bad) == Ids{29, 13});
  }
  const auto raw = tokenizer_of({.normalizer = "null"});
  CHECK(raw.encode("wet\xFF") == Ids{2});
}

TEST_CASE("every two bytes and every cut of a text are taken") {
  const auto tokenizer = tokenizer_of({});
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; b += 3) {
      const std::string text = {'w', static_cast<char>(a), static_cast<char>(b), 'a'};
      for (const std::int32_t id : tokenizer.encode(text)) REQUIRE(!tokenizer.piece(id).empty());
    }
  const std::string text = "\xF0\x9F\x98\x80\xE6\xB0\xB4 [MASK] \xC4\xB0";
  for (std::size_t n = 0; n <= text.size(); ++n)
    CHECK(tokenizer.encode(text.substr(0, n)).size() <= 8);
}

TEST_CASE("the tokens around a text come from the post-processor") {
  const auto bert =
      tokenizer_of({.around = R"({"type":"BertProcessing","sep":["[MASK]",7],"cls":["[PAD]",0]})"});
  CHECK(bert.with_added_tokens({11}) == Ids{0, 11, 7});
  const auto with_template = [](const std::string& text, const std::string& ids) {
    return Parts{
        .around =
            R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[SEP]","type_id":0}},)" +
            text +
            R"(,{"SpecialToken":{"id":"[CLS]","type_id":0}}],"special_tokens":{"[SEP]":{"ids":[5]},"[CLS]":{"ids":)" +
            ids + "}}}"};
  };
  const std::string one_text = R"({"Sequence":{"id":"A","type_id":0}})";
  CHECK(tokenizer_of(with_template(one_text, "[3]")).with_added_tokens({11}) == Ids{5, 11, 3});

  // What BERT does not do is refused: another id than the vocabulary's, two ids, a second text,
  // another type, nothing.
  const Error other_id = error_of(with_template(one_text, "[7]"));
  CHECK(other_id.rule == "T2");
  CHECK_MESSAGE(mentions(other_id, "[CLS]"), other_id.what());
  CHECK(error_of({.around = R"({"type":"BertProcessing","cls":["[CLS]",4],"sep":["[SEP]",5]})"})
            .rule == "T2");
  const auto unsupported = [](const Parts& parts) {
    return error_of(parts).code == ErrorCode::unsupported;
  };
  CHECK(unsupported(with_template(one_text, "[3,7]")));
  CHECK(unsupported(with_template(R"({"Sequence":{"id":"B","type_id":0}})", "[3]")));
  CHECK(unsupported(with_template(R"({"Sequence":{"id":"A","type_id":1}})", "[3]")));
  CHECK(unsupported(
      {.around = R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}}]})"}));
  CHECK(unsupported({.around = "null"}));
}

TEST_CASE("thousands of long added tokens cost no more than their text") {
  std::string added = kSpecial;
  added.pop_back();
  for (int i = 0; i < 999; ++i)
    added += ",{\"id\":" + std::to_string(1000 + i) + ",\"content\":\"" + std::string(1 + i, 'a') +
             "!\"}";
  const auto tokenizer = tokenizer_of({.added = added + "]"});
  const auto begin = std::chrono::steady_clock::now();
  CHECK(tokenizer.encode(std::string(20'000, 'a')) == Ids{2});
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  CHECK(tokenizer.encode("aaa!") == Ids{1002});
}

TEST_CASE("an added token beyond the limit is refused") {
  const std::string added = std::string(kSpecial).substr(0, std::string(kSpecial).size() - 1) +
                            R"(,{"id":500,"content":")" + std::string(1025, 'x') + "\"}]";
  CHECK(error_of({.added = added}).rule == "T1");
}

TEST_CASE("other kinds of tokenizers are refused by name") {
  const auto refused = [](const Parts& parts, std::string_view name) {
    const Error error = error_of(parts);
    CHECK(error.code == ErrorCode::unsupported);
    CHECK_MESSAGE(mentions(error, name), error.what());
  };
  refused({.type = R"("BPE")"}, "BPE");
  refused({.normalizer = R"({"type":"NFKC"})"}, "NFKC");
  refused({.normalizer = R"({"type":"Sequence","normalizers":[{"type":"Strip"}]})"}, "Strip");
  refused({.cutter = R"({"type":"Whitespace"})"}, "Whitespace");
  refused({.cutter = "null"}, "none");
  refused({.around = R"({"type":"ByteLevel"})"}, "ByteLevel");
}

TEST_CASE("broken vocabularies cite their rule") {
  const auto cites = [](const Parts& parts, std::string_view rule, std::string_view text) {
    const Error error = error_of(parts);
    CHECK(error.code == ErrorCode::bad_file);
    CHECK(error.rule == rule);
    CHECK_MESSAGE(mentions(error, text), error.what());
  };
  cites({.vocab = R"({"[UNK]":0,"[CLS]":1,"[SEP]":1})"}, "T2", "[SEP]");
  cites({.vocab = R"({"[UNK]":0,"[CLS]":-1,"[SEP]":2})"}, "T2", "[CLS]");
  cites({.vocab = R"({"[UNK]":0,"[CLS]":2147483648,"[SEP]":2})"}, "T2", "[CLS]");
  cites({.vocab = R"({"[UNK]":0,"[CLS]":1.5,"[SEP]":2})"}, "T2", "[CLS]");
  cites({.vocab = R"({"[UNK]":0,"a":1,"a":3,"[CLS]":4,"[SEP]":2})"}, "T1", "twice");
  cites({.vocab = R"({"[CLS]":1,"[SEP]":2})", .added = "[]"}, "T2", "[UNK]");
  cites({.vocab = R"({"[UNK]":1,"[SEP]":2})", .added = "[]"}, "T2", "[CLS]");
  cites({.vocab = R"({"[UNK]":1,"[CLS]":3})", .added = "[]"}, "T2", "[SEP]");
  cites({.vocab = "[]"}, "T1", "vocab");
  cites({.added = R"([{"id":6,"content":"[CLS]"}])"}, "T2", "[CLS]");
  cites({.added = R"([{"id":3,"content":"<x>"}])"}, "T2", "<x>");
  cites({.added = R"([{"content":"<x>"}])"}, "T2", "<x>");
  cites({.added = R"([{"id":3}])"}, "T1", "content");
  cites({.added = R"([{"id":3,"content":"[CLS]","lstrip":1}])"}, "T1", "lstrip");
  cites({.normalizer = R"({"type":"BertNormalizer","lowercase":"yes"})"}, "T1", "lowercase");
  cites({.more = R"(,"max_input_chars_per_word":1001)"}, "T1", "max_input_chars_per_word");
  cites({.more = R"(,"max_input_chars_per_word":-1)"}, "T1", "max_input_chars_per_word");
}

TEST_CASE("nesting is limited and messages hold no control bytes") {
  const Folder deep;
  deep.write("tokenizer.json", std::string(65, '[') + std::string(65, ']'));
  CHECK(error_of(deep).rule == "T1");
  const Error error = error_of({.type = R"("B\u001b[31m\u0007PE")"});
  for (const char byte : std::string_view(error.what()))
    CHECK(static_cast<unsigned char>(byte) >= 0x20);
}

TEST_CASE("a file cut anywhere is an error, not a crash") {
  const std::string whole = json_of({});
  const Folder folder;
  for (std::size_t n = 0; n < whole.size(); n += 7) {
    folder.write("tokenizer.json", whole.substr(0, n));
    const Error error = error_of(folder);
    REQUIRE(error.code == ErrorCode::bad_file);
    REQUIRE(error.rule == "T1");
  }
}

TEST_CASE("vocab.txt alone, line numbers being ids") {
  const Folder folder;
  folder.write("vocab.txt",
               "[UNK]\r\n[CLS]\r\n[SEP]\r\n\r\n[MASK]\r\nwet\r\nW\r\n\xC3\xBC\r\n##\xC3\xBC");
  SUBCASE("lower case when no settings are there") {
    const auto tokenizer = folder.open();
    CHECK(tokenizer.encode("WET [MASK] [PAD] W") == Ids{5, 4, 0, 0, 0, 0});
    CHECK(tokenizer.piece(3).empty());
    CHECK(tokenizer.vocab_size() == 9);
    CHECK(tokenizer.with_added_tokens({5}) == Ids{1, 5, 2});
  }
  SUBCASE("cased") {
    folder.write("tokenizer_config.json",
                 R"({"do_lower_case":false,"tokenizer_class":"BertTokenizerFast"})");
    CHECK(folder.open().encode("W wet WET \xC3\xBC\xC3\xBC") == Ids{6, 5, 0, 7, 8});
  }
  SUBCASE("accents may stay with lower case") {
    folder.write("tokenizer_config.json", R"({"do_lower_case":true,"strip_accents":false})");
    CHECK(folder.open().encode("WET \xC3\x9C") == Ids{5, 7});
  }
  SUBCASE("special tokens by other names") {
    folder.write("tokenizer_config.json", R"({"cls_token":"wet","sep_token":{"content":"W"}})");
    CHECK(folder.open().with_added_tokens({}) == Ids{5, 6});
  }
  SUBCASE("a class that is not BERT's") {
    folder.write("tokenizer_config.json", R"({"tokenizer_class":"BertJapaneseTokenizer"})");
    const Error error = error_of(folder);
    CHECK(error.code == ErrorCode::unsupported);
    CHECK(mentions(error, "BertJapaneseTokenizer"));
  }
  SUBCASE("a piece twice") {
    folder.write("vocab.txt", "[UNK]\n[CLS]\n[SEP]\nwet\nwet\n");
    CHECK(error_of(folder).rule == "T2");
  }
  SUBCASE("no unknown token") {
    folder.write("vocab.txt", "[CLS]\n[SEP]\nwet\n");
    CHECK(mentions(error_of(folder), "[UNK]"));
  }
  SUBCASE("not UTF-8") {
    folder.write("vocab.txt", "[UNK]\n[CLS]\n\xFF\n[SEP]\n");
    const Error error = error_of(folder);
    CHECK(error.rule == "T5");
    CHECK(error.offset == 12);
  }
}

TEST_CASE("a folder without a tokenizer") {
  const Folder folder;
  const Error error = error_of(folder);
  CHECK(error.code == ErrorCode::io);
  CHECK(error.path == folder.path());
}
