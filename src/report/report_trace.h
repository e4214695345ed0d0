// A trace as text (at most 100 columns) and as the object fourfold.trace/1 of docs/json.md.
#pragma once

#include <string>

#include "fourfold/trace.h"

namespace fourfold {

std::string trace_text(const TraceReport& trace);
std::string trace_json(const TraceReport& trace);

}  // namespace fourfold
