#include "cli/output_guard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "cli/output.h"
#include "fourfold/error.h"
#include "tools/model_place.h"

namespace fourfold::cli {
namespace {

namespace fs = std::filesystem;

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  if (!fs::is_regular_file(b, ignored) && fs::exists(b, ignored))
    return false;  // pipes and devices may be shared
  if (fs::equivalent(a, b, ignored)) return true;
  return fs::weakly_canonical(a, ignored) == fs::weakly_canonical(b, ignored);
}

// Reports of an earlier run may lie in the model's folder and are overwritten; what a model is made
// of is not.
bool belongs_to_model(const fs::path& file) {
  constexpr std::array<std::string_view, 8> kWeights{".safetensors", ".bin",  ".gguf", ".pt",
                                                     ".pth",         ".ckpt", ".onnx", ".model"};
  constexpr std::array<std::string_view, 11> kNames{"config.json",
                                                    "tokenizer.json",
                                                    "tokenizer_config.json",
                                                    "special_tokens_map.json",
                                                    "modules.json",
                                                    "vocab.json",
                                                    "sentence_bert_config.json",
                                                    "config_sentence_transformers.json",
                                                    "vocab.txt",
                                                    "merges.txt",
                                                    "generation_config.json"};
  const std::string name = file.filename().string(), extension = file.extension().string();
  return std::find(kWeights.begin(), kWeights.end(), extension) != kWeights.end() ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         name.ends_with(".index.json");
}

// Known before the work, not after it.
void check_writable(const fs::path& output) {
  std::error_code ignored;
  const fs::path folder =
      fs::weakly_canonical(fs::absolute(output, ignored), ignored).parent_path();
  const bool plain = !fs::exists(output, ignored) || fs::is_regular_file(output, ignored);
  int reason = fs::is_directory(output, ignored) ? EISDIR : 0;
  if (reason == 0 && access((plain ? folder : output).c_str(), W_OK) != 0) reason = errno;
  if (reason != 0) throw WriteError(output.string() + ": cannot write: " + std::strerror(reason));
}

std::vector<fs::path> files_of_model(const std::string& model) {
  std::vector<fs::path> files;
  if (model.empty()) return files;
  const ModelPlace place = find_model(model);
  files.emplace_back(place.weights);
  std::error_code ignored;
  if (place.folder.empty()) return files;
  for (auto at = fs::recursive_directory_iterator(place.folder, ignored);
       at != fs::recursive_directory_iterator(); at.increment(ignored)) {
    if (at.depth() > 0) at.disable_recursion_pending();  // 1_Pooling and its like, not deeper
    if (belongs_to_model(at->path())) files.push_back(at->path());
  }
  return files;
}

}  // namespace

void check_outputs(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs,
                   const std::string& model) {
  std::vector<fs::path> taken;
  for (const auto& output : outputs) {
    if (output.empty()) continue;
    check_writable(output);
    if (taken.empty()) taken = files_of_model(model);
    for (const fs::path& file : taken)
      if (same_file(output, file))
        throw Error(ErrorCode::invalid_argument,
                    output + ": this is a file of the model; write the result elsewhere");
    for (const auto& input : inputs)
      if (!input.empty() && input != "-" && same_file(output, input))
        throw Error(ErrorCode::invalid_argument,
                    output + ": this is also the input; write the result elsewhere");
    for (const auto& other : outputs) {
      if (&other == &output) break;
      if (!other.empty() && same_file(output, other))
        throw Error(ErrorCode::invalid_argument,
                    output + ": two results would go to this one file; name two files");
    }
  }
}

}  // namespace fourfold::cli
