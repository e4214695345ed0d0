// The statistics of one layer in the form that reports print.
#pragma once

#include <optional>

#include "fourfold/activation.h"
#include "fourfold/profile.h"
#include "layers/neuron_statistics.h"
#include "models/tokenizer_wordpiece.h"
#include "tools/text_windows.h"

namespace fourfold {

// dead_threshold: for activations other than relu, relu2 and relu6; without it their dead neurons
// are not defined.
LayerStatistics layer_statistics(const NeuronStatistics& neurons, Activation activation,
                                 std::optional<double> dead_threshold, const TextWindows& text,
                                 const WordPieceTokenizer& tokenizer);

}  // namespace fourfold
