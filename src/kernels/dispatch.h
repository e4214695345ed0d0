// Which instruction set runs. Chosen once per process: FOURFOLD_ISA if set, else the best that the
// CPU has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel_table.h"

namespace fourfold {

// The table in use. Throws Error{unsupported} when FOURFOLD_ISA is unknown, not compiled in, or not
// on this CPU.
const KernelTable& kernels();

struct IsaReport {
  std::vector<std::string> compiled;  // tables in this binary, best first
  std::vector<std::string> detected;  // of these, what the CPU and the system support
  std::string chosen, reason;
};
IsaReport isa_report();

// The table of that name if the CPU can run it, else null. For tests and probes.
const KernelTable* find_kernels(std::string_view name);

}  // namespace fourfold
