// The parts of `fourfold learn`, one function each.
#pragma once

#include "cli/command.h"

namespace fourfold::cli {

void add_learn_cards(CLI::App& learn, Runner& run);
void add_learn_quiz(CLI::App& learn, Runner& run);
void add_learn_page(CLI::App& learn, Runner& run);

}  // namespace fourfold::cli
