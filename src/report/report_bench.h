// The report of `bench`: a table with the ratio to the best peer first, and the JSON object of
// docs/json.md.
#pragma once

#include <string>

#include "fourfold/bench.h"
#include "report/report_text.h"

namespace fourfold {

std::string bench_text(const BenchReport& report, TextStyle style = {});
std::string bench_json(const BenchReport& report);  // "fourfold.bench/1"

}  // namespace fourfold
