// The part of one thread in y = x W^T, or in a sum of such products, inside a parallel region.
#pragma once

#include <span>

#include "ops/packed_weight.h"
#include "ops/row_operand.h"
#include "ops/tile_tasks.h"

namespace fourfold {

// x: [tokens, in], weight: [out, in]; all terms of a sum have the same tokens and out.
struct ProductTerm {
  RowOperand x;
  const PackedWeight* weight;
};

// Calls finish(sums, first row, rows, panel) for each finished tile; sums: [rows, 64]. Terms are
// added in order, in one accumulator per element.
template <class Finish>
void product_tiles(const Region& region, std::span<const ProductTerm> terms,
                   const TileScratch& scratch, TileTasks::Cut cut, const Finish& finish,
                   const TaskShares& shares = {}) {
  const ProductTerm& first_term = terms.front();
  const TileTasks tasks(first_term.x.rows, first_term.weight->panels(), region.threads, cut);
  float* sums = scratch.tile(region);
  tasks.for_each(
      region,
      [&](std::size_t first, std::size_t rows, std::size_t p) {
        for (std::size_t i = 0; i < terms.size(); ++i) {
          const bool last = i + 1 == terms.size();
          const void* next = last ? first_term.weight->panel(p + 1) : terms[i + 1].weight->panel(p);
          panel_product(terms[i].x.rows_from(first, rows), terms[i].weight->panel(p), next, sums,
                        i > 0);
        }
        finish(sums, first, rows, p);
      },
      shares);
}

// x as the kernels read it: where it lies, or a copy that the region makes first.
class InputRows {
 public:
  InputRows(ConstMatrix x, Dtype weight, Workspace& workspace) : x_(x) {
    if (needs_copy(x, weight)) copy_ = RowBuffer(x.rows, x.cols, weight, workspace);
  }
  // The thread's part of the copy; a barrier must follow where is_copy().
  void stage(const Region& region) const {
    if (copy_.empty()) return;
    const Share share = region.share(x_.rows);
    copy_.store(share.first, 0, x_.rows_from(share.first, share.last - share.first));
  }
  bool is_copy() const { return !copy_.empty(); }
  RowOperand operand() const { return copy_.empty() ? RowOperand(x_) : copy_.operand(); }

 private:
  ConstMatrix x_;
  RowBuffer copy_;
};

}  // namespace fourfold
