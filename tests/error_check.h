// What a test expects of a call that must be refused.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "fourfold/error.h"

namespace fourfold {

// The code of the error that action throws; its message must hold the part.
inline ErrorCode code_of(const std::string& part, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    CAPTURE(error.what());
    CHECK(std::string(error.what()).find(part) != std::string::npos);
    return error.code;
  }
  FAIL_CHECK("accepted; expected an error with " << part);
  return ErrorCode::io;
}

// action must throw an error of that code whose message holds all the parts.
inline void check_error(ErrorCode code, const std::vector<std::string>& parts,
                        const std::function<void()>& action) {
  for (const std::string& part : parts) CHECK(code_of(part, action) == code);
}

}  // namespace fourfold
