// The files of a sentence-transformers folder: modules.json names the steps after the encoder,
// 1_Pooling/config.json how token vectors are pooled, sentence_bert_config.json the longest text.
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "formats/limits.h"
#include "formats/utf8.h"
#include "models/config_fields.h"
#include "models/model_config.h"
#include "platform/mapped_file.h"

namespace fourfold {
namespace {

// The part after the last dot: "sentence_transformers.models.Pooling" is a "Pooling".
std::string_view class_name(std::string_view type) {
  const std::size_t dot = type.rfind('.');
  return dot == std::string_view::npos ? type : type.substr(dot + 1);
}

bool stays_in_folder(std::string_view name) {
  if (name.size() > 255 || name == "." || name == "..") return false;
  for (const char c : name)
    if (c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return false;
  return true;
}

// The pooling of the one true pooling_mode_* key.
Pooling read_pooling(const std::string& path) {
  const JsonDocument document = read_json_file(path, "C1");
  const ConfigFields fields(path, document.root());
  constexpr std::string_view kSupported = "supported: cls_token, mean_tokens, max_tokens";
  constexpr std::string_view kPrefix = "pooling_mode_";
  if (json_field(fields.object(), "pooling_mode")) {
    const std::string_view name = fields.text("pooling_mode");
    if (const auto pooling = parse_pooling(name)) return *pooling;
    throw fields.unsupported(
        "pooling_mode",
        fmt::format("\"{}\" is not supported; supported: cls, mean, max", printable(name, 64)));
  }
  std::string chosen;
  for (const auto field : fields.object()) {
    if (!field.key.starts_with(kPrefix) || !fields.flag_or(field.key, false)) continue;
    if (!chosen.empty())
      throw fields.unsupported(field.key,
                               fmt::format("is true beside \"{}\"; exactly one may be true, {}",
                                           printable(chosen), kSupported));
    chosen = field.key;
  }
  if (chosen == "pooling_mode_cls_token") return Pooling::cls;
  if (chosen == "pooling_mode_mean_tokens") return Pooling::mean;
  if (chosen == "pooling_mode_max_tokens") return Pooling::max;
  if (chosen.empty())
    throw fields.unsupported(
        "pooling_mode_mean_tokens",
        fmt::format("no pooling mode is true; exactly one must be, {}", kSupported));
  throw fields.unsupported(chosen, fmt::format("this pooling is not supported; {}", kSupported));
}

void read_modules(const std::string& folder, SentenceConfig& config) {
  const std::string path = folder + "/modules.json";
  const JsonDocument document = read_json_file(path, "C1");
  simdjson::dom::array modules;
  if (document.root().get(modules) != simdjson::SUCCESS)
    throw file_error(
        {.path = path, .rule = "C1", .tensor = {}, .offset = 0},
        fmt::format("found {}; expected an array of modules", json_type_name(document.root())));
  enum class Stage { start, transformer, pooling, normalize };
  Stage stage = Stage::start;
  for (const auto element : modules) {
    const ConfigFields module(path, element);
    const std::string_view type = module.text("type");
    const std::string_view kind = class_name(type);
    const std::string_view place = module.text_or("path", "");
    if (!stays_in_folder(place))
      throw module.bad("path", fmt::format("found \"{}\"; expected the name of one folder beside "
                                           "modules.json, without separators or \"..\"",
                                           printable(place)));
    if (kind == "Transformer" && stage == Stage::start) {
      if (!place.empty())
        throw module.unsupported(
            "path", fmt::format("the encoder lies in subfolder \"{}\"; only an encoder beside "
                                "modules.json is supported",
                                printable(place)));
      stage = Stage::transformer;
    } else if (kind == "Pooling" && stage == Stage::transformer) {
      if (place.empty()) throw module.bad("path", "is empty; expected the pooling's own folder");
      config.pooling = read_pooling(folder + "/" + std::string(place) + "/config.json");
      stage = Stage::pooling;
    } else if (kind == "Normalize" && stage == Stage::pooling) {
      config.normalize = true;
      stage = Stage::normalize;
    } else {
      throw module.unsupported(
          "type", fmt::format("module \"{}\" is not supported here; supported: Transformer, then "
                              "Pooling, then perhaps Normalize",
                              printable(type)));
    }
  }
  if (stage == Stage::start || stage == Stage::transformer)
    throw file_error({.path = path, .rule = "C1", .tensor = {}},
                     "the modules end before a Pooling; supported: Transformer, then Pooling, then "
                     "perhaps Normalize",
                     ErrorCode::unsupported);
}

}  // namespace

std::optional<Pooling> parse_pooling(std::string_view name) {
  if (name == "mean") return Pooling::mean;
  if (name == "cls") return Pooling::cls;
  if (name == "max") return Pooling::max;
  return std::nullopt;
}

SentenceConfig read_sentence_config(const std::string& folder) {
  SentenceConfig config;
  if (file_is_there(folder + "/modules.json")) read_modules(folder, config);
  const std::string path = folder + "/sentence_bert_config.json";
  if (file_is_there(path)) {
    const JsonDocument document = read_json_file(path, "C1");
    const ConfigFields fields(path, document.root());
    const auto length = json_field(fields.object(), "max_seq_length");
    if (length && !length->is_null())
      config.max_length = fields.natural("max_seq_length", 1, limits::kDimension);
  }
  return config;
}

}  // namespace fourfold
