// What the parts of the oneDNN peer share: the case as the tool gives it, arrays, and products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace peer {

// The peer does not do this case.
struct Cannot : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Case {
  std::map<std::string, std::string> fields;

  const std::string& text(const std::string& name) const { return fields.at(name); }
  long number(const std::string& name) const { return std::stol(fields.at(name)); }
  bool bf16() const { return text("dtype") == "bf16"; }
  bool gated() const { return text("kind") == "gated"; }
  dnnl::memory::data_type type() const {
    return bf16() ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  }
};

struct Device {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

class Work {
 public:
  virtual ~Work() = default;
  virtual void pass() = 0;           // all copies, once
  virtual void write_outputs() = 0;  // of one fresh call
};

// The file NAME.bin as it is: rows x cols values, plain, or the transposed view of them.
dnnl::memory read_matrix(Device& device, const Case& row, const std::string& name, long rows,
                         long cols, bool transposed = false);
dnnl::memory read_vector(Device& device, const std::string& name, long cols);  // [1, cols], f32
dnnl::memory make_matrix(Device& device, const Case& row, long rows, long cols);
// The same values in another layout.
dnnl::memory reordered(Device& device, dnnl::memory from, const dnnl::memory::desc& to);
// NAME.out in float32, row-major; transposed: the other way round.
void write_matrix(Device& device, const std::string& name, dnnl::memory matrix,
                  bool transposed = false);

dnnl::matmul::primitive_desc make_product(Device& device, const dnnl::memory::desc& a,
                                          const dnnl::memory::desc& b, const dnnl::memory::desc& c,
                                          const dnnl::post_ops& after = {});

std::unique_ptr<Work> make_training(Device& device, const Case& row);

}  // namespace peer
