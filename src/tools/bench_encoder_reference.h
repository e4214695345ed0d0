// The float64 answer of a BERT encoder for one sequence, straight from the tensors of its file.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/safetensors.h"
#include "fourfold/runtime.h"
#include "models/model_config.h"

namespace fourfold {

// The last layer's rows: [ids.size(), d_model]. The file has passed BertEncoder::check.
std::vector<double> encode64(const SafetensorsFile& file, const ModelConfig& config,
                             std::span<const std::int32_t> ids, Workspace& workspace);

}  // namespace fourfold
