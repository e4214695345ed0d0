// Checks at public entry points. FOURFOLD_CHECK is for arguments; FOURFOLD_DCHECK for our own
// mistakes only.
#pragma once

#include <cassert>
#include <string>

#include "fourfold/error.h"

#define FOURFOLD_CHECK(condition, code, message)                                     \
  do {                                                                               \
    if (!(condition)) throw ::fourfold::Error(::fourfold::ErrorCode::code, message); \
  } while (false)

#define FOURFOLD_DCHECK(condition) assert(condition)
