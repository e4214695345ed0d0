// Results must not replace what a command reads: weights, tokenizer, texts.
#pragma once

#include <string>
#include <vector>

namespace fourfold::cli {

// Throws Error{invalid_argument} when an output is an input, a file of the model's folder, or
// another output (also by another name for the same file), and WriteError when it cannot be
// written. Empty names are skipped; model may be empty.
void check_outputs(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs,
                   const std::string& model);

}  // namespace fourfold::cli
