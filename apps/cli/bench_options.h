// Options of `bench` that are more than a number: lists of token counts, routings, and where the
// peers are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fourfold/bench.h"

namespace fourfold::cli {

// "1,4,16-64,128-512+128": numbers, and ranges with a step of 1 or the one given. Throws
// Error{invalid_argument}.
std::vector<std::uint64_t> parse_token_counts(const std::string& text);

// uniform, zipf, single, or a file with the experts of one token per line; fills routing and
// experts. Throws Error{invalid_argument}, Error{io}.
void read_routing(const std::string& text, BenchOptions& options);

// Fills peers and absent. wanted: names with commas, "none", or empty for all that are there.
// folder: of --peers-dir, or empty. Throws Error{invalid_argument} for a name that nobody knows.
void find_peers(const std::string& wanted, const std::string& folder, BenchOptions& options);

}  // namespace fourfold::cli
