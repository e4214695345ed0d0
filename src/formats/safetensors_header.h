// The JSON header of a safetensors file: rules S3..S15.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/safetensors.h"

namespace fourfold {

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  // by offset; byte ranges count from the start of the file
  std::map<std::string, std::string> metadata;
};

// Parses and checks a header that starts at byte 8 of the file at path. data_bytes: what follows
// the header. Throws Error{bad_file}, Error{out_of_memory}.
SafetensorsHeader parse_safetensors_header(const std::string& path,
                                           const simdjson::padded_string& text,
                                           std::uint64_t data_bytes);

}  // namespace fourfold
