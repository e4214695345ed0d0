// Any bytes as config.json and modules.json: an Error, or sizes within their limits.
#include <cstdlib>
#include <string>

#include "formats/temp_folder.h"
#include "fourfold/error.h"
#include "models/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fourfold::testing::TempFolder folder;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  folder.write("config.json", bytes);
  folder.write("modules.json", bytes);
  try {
    const auto config = fourfold::read_model_config(folder.path());
    const bool sane = config.n_layers >= 1 && config.n_layers <= 4096 && config.n_heads >= 1 &&
                      config.d_model % config.n_heads == 0 && config.d_ff >= 1 &&
                      config.d_ff <= (1U << 20);
    if (!sane) std::abort();
  } catch (const fourfold::Error&) {
  }
  try {
    (void)fourfold::read_sentence_config(folder.path());
  } catch (const fourfold::Error&) {
  }
  return 0;
}
