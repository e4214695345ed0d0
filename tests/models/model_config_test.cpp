// Configurations that must load, each kind that must not, and where a model's files are found.
#include "models/model_config.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <utility>

#include "formats/temp_folder.h"
#include "fourfold/error.h"

using namespace fourfold;
using namespace fourfold::testing;

namespace {

using Fields = std::map<std::string, std::string>;  // key to JSON text

Fields bert() {
  return {
      {"model_type", "\"bert\""},  {"num_hidden_layers", "3"},        {"hidden_size", "35"},
      {"intermediate_size", "11"}, {"num_attention_heads", "7"},      {"vocab_size", "101"},
      {"type_vocab_size", "2"},    {"max_position_embeddings", "13"}, {"hidden_act", "\"gelu\""}};
}

std::string json(const Fields& fields) {
  std::string text;
  for (const auto& [key, value] : fields)
    text += (text.empty() ? "{\"" : ",\"") + key + "\":" + value;
  return text + "}";
}

// The error of an action; code invalid_argument and the text "accepted" when there is none.
Error failure(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::invalid_argument, "accepted"};
}

bool holds(const Error& error, std::string_view text) {
  return std::string_view(error.what()).find(text) != std::string_view::npos;
}

ModelConfig config_of(const TempFolder& folder, const Fields& fields) {
  folder.write("config.json", json(fields));
  return read_model_config(folder.path());
}

Error refused(const std::string& key, const std::string& value) {
  const TempFolder folder;
  Fields fields = bert();
  fields[key] = value;
  const Error error = failure([&] { config_of(folder, fields); });
  CHECK(error.path == folder.path() + "/config.json");
  CHECK(holds(error, "\"" + key + "\""));
  return error;
}

// Sets an environment variable and restores it.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    if (value.empty())
      unsetenv(name);
    else
      setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (old_)
      setenv(name_, old_->c_str(), 1);
    else
      unsetenv(name_);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace

TEST_CASE("a BERT configuration") {
  const TempFolder folder;
  Fields fields = bert();
  fields["ignored"] = "{\"a\":[1,2]}";
  const ModelConfig config = config_of(folder, fields);
  CHECK(config.path == folder.path() + "/config.json");
  CHECK(config.architecture == "bert");
  CHECK(config.n_layers == 3);
  CHECK(config.d_model == 35);
  CHECK(config.d_ff == 11);
  CHECK(config.n_heads == 7);
  CHECK(config.head_dim == 5);
  CHECK(config.vocab_size == 101);
  CHECK(config.max_positions == 13);
  CHECK(config.type_vocab_size == 2);
  CHECK(config.activation == Activation::gelu_erf);
  CHECK(config.norm_eps == 1e-12F);
}

TEST_CASE("optional settings of a configuration") {
  const TempFolder folder;
  Fields fields = bert();
  fields["layer_norm_eps"] = "1e-05";
  fields["hidden_act"] = "\"gelu_new\"";
  fields["position_embedding_type"] = "\"absolute\"";
  fields["is_decoder"] = "false";
  CHECK(config_of(folder, fields).norm_eps == 1e-5F);
  CHECK(config_of(folder, fields).activation == Activation::gelu_tanh);
  fields["layer_norm_eps"] = "0";
  CHECK(config_of(folder, fields).norm_eps == 0.0F);
}

TEST_CASE("every size is needed and named when missing") {
  for (const auto& field : bert()) {
    const std::string& key = field.first;
    CAPTURE(key);
    const TempFolder folder;
    Fields fields = bert();
    fields.erase(key);
    const Error error = failure([&] { config_of(folder, fields); });
    CHECK(error.code == ErrorCode::bad_file);
    CHECK(error.rule == (key == "hidden_act" ? "C4" : "C1"));
    CHECK(holds(error, "\"" + key + "\": is missing"));
  }
}

TEST_CASE("sizes out of range and of other types") {
  for (const char* key : {"hidden_size", "intermediate_size", "num_attention_heads", "vocab_size",
                          "max_position_embeddings", "type_vocab_size", "num_hidden_layers"})
    for (const char* value : {"0", "-1", "7.0", "7e0", "\"7\"", "null", "true", "[7]", "4194305",
                              "9223372036854775808"}) {
      CAPTURE(value);
      const Error error = refused(key, value);
      CHECK(error.code == ErrorCode::bad_file);
      CHECK(error.rule == "C1");
    }
  CHECK(refused("num_hidden_layers", "4097").rule == "C1");
  CHECK(refused("hidden_size", "1048577").rule == "C1");
  const TempFolder folder;
  Fields largest = bert();
  largest["num_hidden_layers"] = "4096";
  largest["intermediate_size"] = "1048576";
  largest["vocab_size"] = "4194304";
  CHECK(config_of(folder, largest).vocab_size == 4194304);
}

TEST_CASE("heads must divide the width") {
  CHECK(holds(refused("num_attention_heads", "6"), "divide"));
}

TEST_CASE("what would change the computation is refused") {
  for (const auto& [key, value, rule] :
       {std::tuple{"hidden_act", "\"no_such\"", "C4"},
        std::tuple{"position_embedding_type", "\"relative_key\"", "C1"},
        std::tuple{"is_decoder", "true", "C1"},
        std::tuple{"auto_map", "{\"AutoModel\":\"m.M\"}", "C5"},
        std::tuple{"model_type", "\"llama\"", "C1"}}) {
    const Error error = refused(key, value);
    CHECK(error.code == ErrorCode::unsupported);
    CHECK(error.rule == rule);
  }
  CHECK(holds(refused("model_type", "\"llama\""), "supported: \"bert\""));
  CHECK(holds(refused("hidden_act", "\"no_such\""), "relu"));
}

TEST_CASE("settings of the wrong type") {
  for (const auto& [key, value] :
       {std::pair{"hidden_act", "null"}, std::pair{"hidden_act", "7"}, std::pair{"is_decoder", "1"},
        std::pair{"model_type", "[]"}, std::pair{"layer_norm_eps", "\"1e-5\""},
        std::pair{"layer_norm_eps", "-1e-5"}, std::pair{"layer_norm_eps", "1e39"},
        std::pair{"position_embedding_type", "0"}})
    CHECK(refused(key, value).code == ErrorCode::bad_file);
}

TEST_CASE("a configuration that is not one JSON object") {
  const TempFolder folder;
  for (const std::string text : {"", "[]", "{", "{} x", "{\"a\":1,\"a\":1}", "\xFF", "nul"}) {
    folder.write("config.json", text);
    const Error error = failure([&] { read_model_config(folder.path()); });
    CHECK(error.code == ErrorCode::bad_file);
    CHECK(error.rule == "C1");
    CHECK(error.offset != Error::kNoOffset);
  }
  folder.write("config.json", std::string((16U << 20U) + 1, ' '));
  CHECK(failure([&] { read_model_config(folder.path()); }).rule == "C1");
  CHECK(failure([&] { read_model_config(folder.path() + "/none"); }).code == ErrorCode::io);
}

namespace {

constexpr const char* kEncoder =
    R"({"idx":0,"name":"0","path":"","type":"sentence_transformers.models.Transformer"})";
constexpr const char* kPooling =
    R"({"idx":1,"name":"1","path":"1_Pooling","type":"sentence_transformers.models.Pooling"})";
constexpr const char* kNormalize =
    R"({"idx":2,"name":"2","path":"2_Normalize","type":"sentence_transformers.models.Normalize"})";

std::string modules(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "[" : ",") + part;
  return (text.empty() ? "[" : text) + "]";
}

Error sentence_failure(const TempFolder& folder) {
  return failure([&] { read_sentence_config(folder.path()); });
}

}  // namespace

TEST_CASE("sentence settings: nothing there means mean without normalising") {
  const TempFolder folder;
  const SentenceConfig config = read_sentence_config(folder.path());
  CHECK(config.pooling == Pooling::mean);
  CHECK_FALSE(config.normalize);
  CHECK_FALSE(config.max_length.has_value());
}

TEST_CASE("sentence settings from the files") {
  const TempFolder folder;
  folder.write("modules.json", modules({kEncoder, kPooling, kNormalize}));
  folder.write("1_Pooling/config.json",
               R"({"word_embedding_dimension":35,"pooling_mode_cls_token":true,)"
               R"("pooling_mode_mean_tokens":false,"include_prompt":true})");
  folder.write("sentence_bert_config.json", R"({"max_seq_length":256,"do_lower_case":false})");
  const SentenceConfig config = read_sentence_config(folder.path());
  CHECK(config.pooling == Pooling::cls);
  CHECK(config.normalize);
  CHECK(config.max_length == 256);

  folder.write("modules.json", modules({kEncoder, kPooling}));
  folder.write("1_Pooling/config.json", R"({"pooling_mode_max_tokens":true})");
  folder.write("sentence_bert_config.json", R"({"max_seq_length":null})");
  CHECK(read_sentence_config(folder.path()).pooling == Pooling::max);
  CHECK_FALSE(read_sentence_config(folder.path()).normalize);
  CHECK_FALSE(read_sentence_config(folder.path()).max_length.has_value());
  folder.write("1_Pooling/config.json", R"({"pooling_mode":"mean"})");
  CHECK(read_sentence_config(folder.path()).pooling == Pooling::mean);
  folder.write("sentence_bert_config.json", R"({"max_seq_length":0})");
  CHECK(sentence_failure(folder).rule == "C1");
}

TEST_CASE("pooling: exactly one supported mode") {
  const TempFolder folder;
  folder.write("modules.json", modules({kEncoder, kPooling}));
  for (const char* text :
       {"{}", R"({"pooling_mode_mean_tokens":false})",
        R"({"pooling_mode_mean_tokens":true,"pooling_mode_cls_token":true})",
        R"({"pooling_mode_weightedmean_tokens":true})", R"({"pooling_mode":"lasttoken"})"}) {
    CAPTURE(text);
    folder.write("1_Pooling/config.json", text);
    CHECK(sentence_failure(folder).code == ErrorCode::unsupported);
    CHECK(holds(sentence_failure(folder), "supported: cls"));
  }
  folder.write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens":1})");
  CHECK(sentence_failure(folder).code == ErrorCode::bad_file);
}

TEST_CASE("modules that are not known, or in another order") {
  const TempFolder folder;
  folder.write("1_Pooling/config.json", R"({"pooling_mode_mean_tokens":true})");
  const std::string dense = R"({"path":"2_Dense","type":"sentence_transformers.models.Dense"})";
  for (const std::string& text :
       {modules({kEncoder, kPooling, dense}), modules({kPooling}), modules({}), modules({kEncoder}),
        modules({kEncoder, kNormalize}), modules({kEncoder, kPooling, kPooling}),
        modules({kEncoder, kPooling, kNormalize, kNormalize})}) {
    CAPTURE(text);
    folder.write("modules.json", text);
    CHECK(sentence_failure(folder).code == ErrorCode::unsupported);
  }
  folder.write("modules.json", modules({kEncoder, kPooling, dense}));
  CHECK(holds(sentence_failure(folder), "sentence_transformers.models.Dense"));
  for (const char* text : {"{}", "[7]", R"([{"path":""}])"}) {
    folder.write("modules.json", text);
    CHECK(sentence_failure(folder).code == ErrorCode::bad_file);
  }
}

TEST_CASE("a module's folder cannot lead out of the model") {
  const TempFolder folder;
  folder.write("outside/config.json", R"({"pooling_mode_mean_tokens":true})");
  for (const char* path : {"../outside", "..", ".", "/etc", "a/b", "a\\\\b", "a\\nb", "a\\u0000"}) {
    CAPTURE(path);
    folder.write("model/modules.json", modules({kEncoder, R"({"type":"x.Pooling","path":")" +
                                                              std::string(path) + "\"}"}));
    const Error error = failure([&] { read_sentence_config(folder.path() + "/model"); });
    CHECK(error.code == ErrorCode::bad_file);
    CHECK(error.rule == "C1");
  }
}

TEST_CASE("a model is a folder, a file, or a name in the cache") {
  const TempFolder folder;
  const std::string weights = folder.write("m/model.safetensors", "");
  CHECK(resolve_model(folder.path() + "/m").folder == folder.path() + "/m");
  CHECK(resolve_model(folder.path() + "/m").weights == weights);
  CHECK(resolve_model(weights).folder.empty());
  CHECK(resolve_model(weights).weights == weights);

  const std::string entry = "hub/models--org--tiny.model-2";
  folder.write(entry + "/refs/main", "abc123\n");
  const std::string cached = folder.write(entry + "/snapshots/abc123/model.safetensors", "");
  const Environment cache("HF_HUB_CACHE", folder.path() + "/hub");
  CHECK(resolve_model("org/tiny.model-2").weights == cached);
  {
    const Environment no_cache("HF_HUB_CACHE", "");
    const Environment home("HF_HOME", folder.path());
    CHECK(resolve_model("org/tiny.model-2").weights == cached);
  }
  folder.write(entry + "/refs/main", "../abc123");
  CHECK(failure([] { resolve_model("org/tiny.model-2"); }).code == ErrorCode::bad_file);
  folder.write(entry + "/refs/main", "fff");
  CHECK(failure([] { resolve_model("org/tiny.model-2"); }).code == ErrorCode::io);
}

TEST_CASE("a model that is not there or not readable says what to do") {
  const TempFolder folder;
  const Environment cache("HF_HUB_CACHE", folder.path() + "/hub");
  for (const std::string name : {"org/none", "none", "a/b/c", "../x", "org/..", "", "a b", "\n"}) {
    CAPTURE(name);
    const Error error = failure([&] { resolve_model(name); });
    CHECK(error.code == ErrorCode::io);
    CHECK(holds(error, folder.path() + "/hub"));
    CHECK(holds(error, "nothing is downloaded"));
    CHECK_FALSE(holds(error, "\n"));
  }
  folder.write("empty/config.json", "{}");
  const auto in = [&](const char* name) {
    return failure([&] { resolve_model(folder.path() + name); });
  };
  CHECK(in("/empty").code == ErrorCode::io);
  CHECK(holds(in("/empty"), "looked for model.safetensors"));
  folder.write("shards/model.safetensors.index.json", "{}");
  CHECK(in("/shards").code == ErrorCode::unsupported);
  CHECK(holds(in("/shards"), "shards"));
  folder.write("old/pytorch_model.bin", "");
  CHECK(in("/old").code == ErrorCode::unsupported);
  folder.write("m.gguf", "");
  CHECK(in("/m.gguf").code == ErrorCode::unsupported);
  folder.write("m.pt", "");
  CHECK(in("/m.pt").code == ErrorCode::unsupported);
}
