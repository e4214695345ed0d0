// Errors about the content of files: one sentence for people, the same facts as fields for
// programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fourfold/error.h"

namespace fourfold {

struct FilePlace {
  std::string path;
  std::string rule;    // "S13"; may be empty
  std::string tensor;  // may be empty
  std::uint64_t offset = Error::kNoOffset;
};

// "path: rule S13, tensor "x", byte 8: text". The path and the tensor's name are made printable;
// parts of the file inside the text must be so already (see utf8.h).
Error file_error(const FilePlace& place, std::string_view text,
                 ErrorCode code = ErrorCode::bad_file);

}  // namespace fourfold
