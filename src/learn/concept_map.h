// The concept map: every idea of the lesson with the ideas it leads to, as a tree from the
// feed-forward sublayer, as one idea with its neighbours, as JSON.
#pragma once

#include <string>
#include <string_view>

#include "fourfold/learn.h"

namespace fourfold {

// Each idea once, under the nearest one that leads to it; further links stand behind it.
std::string concept_tree_text();
// One idea: text, where it leads, what leads to it, its cards and sources.
std::string concept_text(const LessonConcept& idea);
// Schema fourfold.learn-map/1; `only`: this idea alone.
std::string concept_map_json(const LessonConcept* only = nullptr);

// By id, title, initials of the id ("moe") or a part of one that names a single idea. Throws
// Error{invalid_argument} that lists what is close, or all ids.
const LessonConcept& find_concept(std::string_view name);

}  // namespace fourfold
