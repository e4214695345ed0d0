// From what the user typed to the files of a model, in the local file system and the Hugging Face
// cache (models--org--name/refs/main names a revision, snapshots/<revision> holds its files).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "formats/file_error.h"
#include "formats/utf8.h"
#include "models/model_config.h"
#include "platform/mapped_file.h"

namespace fourfold {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kReferenceBytes = 256;

Error path_error(const std::string& path, std::string_view text, ErrorCode code) {
  return file_error({.path = path, .rule = {}, .tensor = {}}, text, code);
}

ModelFiles from_folder(const std::string& folder) {
  ModelFiles files{folder, folder + "/model.safetensors"};
  if (file_is_there(files.weights)) return files;
  const std::string index = files.weights + ".index.json";
  if (file_is_there(index))
    throw path_error(index,
                     "this checkpoint is split into shards, which is not supported yet; expected "
                     "one file model.safetensors",
                     ErrorCode::unsupported);
  if (file_is_there(folder + "/pytorch_model.bin"))
    throw path_error(folder,
                     "holds pytorch_model.bin, a format that can run code and is never read; "
                     "expected model.safetensors, so convert the weights first",
                     ErrorCode::unsupported);
  throw path_error(folder, "the folder holds no weights; looked for model.safetensors",
                   ErrorCode::io);
}

ModelFiles from_file(const std::string& path) {
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".gguf")
    throw path_error(path, "GGUF files are not supported yet; expected a .safetensors file",
                     ErrorCode::unsupported);
  constexpr std::array<std::string_view, 4> kPickles{".bin", ".pt", ".pth", ".ckpt"};
  if (std::find(kPickles.begin(), kPickles.end(), extension) != kPickles.end())
    throw path_error(path,
                     "this format can run code and is never read; expected a .safetensors file",
                     ErrorCode::unsupported);
  return {"", path};
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string cache_folder() {
  if (std::string hub = environment("HF_HUB_CACHE"); !hub.empty()) return hub;
  if (const std::string home = environment("HF_HOME"); !home.empty()) return home + "/hub";
  if (const std::string home = environment("HOME"); !home.empty())
    return home + "/.cache/huggingface/hub";
  return {};
}

bool is_plain_name(std::string_view text) {
  if (text.empty() || text.size() > 128 || text == "." || text.find("..") != text.npos)
    return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

// "models--org--name", or nothing when the text cannot be a name of the Hub.
std::string cache_name(std::string_view model) {
  const std::size_t slash = model.find('/');
  if (slash == std::string_view::npos)
    return is_plain_name(model) ? "models--" + std::string(model) : std::string();
  const std::string_view owner = model.substr(0, slash);
  const std::string_view name = model.substr(slash + 1);
  if (!is_plain_name(owner) || !is_plain_name(name)) return {};
  return "models--" + std::string(owner) + "--" + std::string(name);
}

std::string read_revision(const std::string& path) {
  const MappedFile file(path, FileAccess::pread);
  std::string text;
  if (file.size() <= kReferenceBytes) {
    text.resize(static_cast<std::size_t>(file.size()));
    file.read(0, std::as_writable_bytes(std::span(text)));
  }
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  if (!is_plain_name(text))
    throw file_error({.path = path, .rule = {}, .tensor = {}, .offset = 0},
                     "the file does not hold the name of a revision; fetch the model again");
  return text;
}

// The snapshot's folder, or nothing when the cache does not know the model.
std::string cached_folder(const std::string& entry) {
  const std::string reference = entry + "/refs/main";
  if (!file_is_there(reference)) return {};
  std::string snapshot = entry + "/snapshots/" + read_revision(reference);
  if (!file_is_there(snapshot))
    throw path_error(snapshot, "the cache names this revision but does not hold it", ErrorCode::io);
  return snapshot;
}

}  // namespace

ModelFiles resolve_model(const std::string& model) {
  if (file_is_there(model)) return fs::is_directory(model) ? from_folder(model) : from_file(model);

  const std::string cache = cache_folder();
  const std::string name = cache_name(model);
  if (!cache.empty() && !name.empty()) {
    const std::string folder = cached_folder(cache + "/" + name);
    if (!folder.empty()) return from_folder(folder);
  }
  std::string second = fmt::format("the Hugging Face cache {}", printable(cache, 4096));
  if (cache.empty()) second = "the Hugging Face cache (no HF_HUB_CACHE, HF_HOME or HOME is set)";
  if (name.empty()) second += ", where only names like org/name can be";
  throw path_error(model,
                   fmt::format("no such model; looked for this path and in {}; nothing is "
                               "downloaded, so fetch the model first",
                               second),
                   ErrorCode::io);
}

}  // namespace fourfold
