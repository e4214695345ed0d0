// The case that each PER_ISA test executable holds: what FOURFOLD_ISA asks for is what runs.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "fourfold/runtime.h"

namespace fourfold {

inline void check_isa_asked_for() {
  const Runtime runtime({.count = 1});
  const char* asked = std::getenv("FOURFOLD_ISA");
  if (asked == nullptr || *asked == '\0')
    MESSAGE("FOURFOLD_ISA is not set; ", std::string(runtime.isa()), " runs");
  else
    CHECK(std::string(runtime.isa()) == asked);
}

}  // namespace fourfold
