// Any bytes as tokenizer.json, split at the first NUL from a text that the tokenizer then encodes.
#include <algorithm>
#include <cstdio>
#include <string>

#include "formats/temp_folder.h"
#include "fourfold/error.h"
#include "models/tokenizer_wordpiece.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fourfold::testing::TempFolder folder;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = std::min(bytes.find('\0'), bytes.size());
  folder.write("tokenizer.json", bytes.substr(0, cut));
  try {
    const auto tokenizer = fourfold::WordPieceTokenizer::open(folder.path());
    const auto ids = tokenizer.encode(bytes.substr(std::min(cut + 1, bytes.size())));
    for (const std::int32_t id : ids)
      if (id < 0 || static_cast<std::size_t>(id) >= tokenizer.vocab_size()) std::abort();
    if (tokenizer.with_added_tokens(ids).size() != ids.size() + tokenizer.added_tokens())
      std::abort();
  } catch (const fourfold::Error&) {
  }
  return 0;
}
