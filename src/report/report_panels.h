// The panels of the profile page: each is a <figure> (or, for neurons, a fold per layer) with its
// own table.
#pragma once

#include <string>

#include "fourfold/profile.h"

namespace fourfold {

std::string time_panel(const ProfileReport& report);   // stages of each layer, stacked
std::string limit_panel(const ProfileReport& report);  // share of the machine's limit
std::string firing_panel(
    const ProfileReport& report);  // firing-rate histograms, one small chart per layer
std::string sparsity_panel(const ProfileReport& report);  // zeros, small values, energy_99
std::string outlier_panel(const ProfileReport& report);   // largest and median |h|
std::string neuron_panel(
    const ProfileReport& report);  // strongest neurons with their tokens in context

}  // namespace fourfold
