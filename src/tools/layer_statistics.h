// The statistics of one layer in the form that reports print.
#pragma once

#include <optional>

#include "fourfold/activation.h"
#include "fourfold/profile.h"
#include "layers/moe_statistics.h"
#include "layers/neuron_statistics.h"
#include "models/tokenizer_wordpiece.h"
#include "tools/text_windows.h"

namespace fourfold {

// dead_threshold: for activations without exact zeros; without it their dead neurons are not
// defined.
LayerStatistics layer_statistics(const NeuronStatistics& neurons, Activation activation,
                                 std::optional<double> dead_threshold, const TextWindows& text,
                                 const WordPieceTokenizer& tokenizer);
// The experts of a mixture together: shares run over pairs of token and expert, and neuron i of
// expert e has the number e * d_ff + i. The shared expert's numbers are those of *moe.shared().
LayerStatistics layer_statistics(const MoeStatistics& moe, Activation activation,
                                 std::optional<double> dead_threshold, const TextWindows& text,
                                 const WordPieceTokenizer& tokenizer);

}  // namespace fourfold
