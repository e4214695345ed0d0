#include "onednn_case.h"

#include <fstream>
#include <utility>

namespace peer {
namespace {

using dnnl::memory;

void read_file(const std::string& name, void* to, std::size_t bytes) {
  std::ifstream file(name + ".bin", std::ios::binary);
  if (!file.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes)))
    throw std::runtime_error("cannot read " + name + ".bin");
}

}  // namespace

memory read_matrix(Device& device, const Case& row, const std::string& name, long rows, long cols,
                   bool transposed) {
  const memory::desc plain = transposed
                                 ? memory::desc({cols, rows}, row.type(), memory::format_tag::ba)
                                 : memory::desc({rows, cols}, row.type(), memory::format_tag::ab);
  memory matrix(plain, device.engine);
  read_file(name, matrix.get_data_handle(), plain.get_size());
  return matrix;
}

memory read_vector(Device& device, const std::string& name, long cols) {
  memory vector({{1, cols}, memory::data_type::f32, memory::format_tag::ab}, device.engine);
  read_file(name, vector.get_data_handle(), vector.get_desc().get_size());
  return vector;
}

memory make_matrix(Device& device, const Case& row, long rows, long cols) {
  return memory({{rows, cols}, row.type(), memory::format_tag::ab}, device.engine);
}

memory reordered(Device& device, memory from, const memory::desc& to) {
  memory result(to, device.engine);
  dnnl::reorder(from, result).execute(device.stream, from, result);
  device.stream.wait();
  return result;
}

void write_matrix(Device& device, const std::string& name, memory matrix, bool transposed) {
  const memory::dims dims = matrix.get_desc().dims();
  const auto order = transposed ? memory::format_tag::ba : memory::format_tag::ab;
  const memory plain =
      reordered(device, std::move(matrix), memory::desc(dims, memory::data_type::f32, order));
  std::ofstream file(name + ".out", std::ios::binary);
  file.write(static_cast<const char*>(plain.get_data_handle()),
             static_cast<std::streamsize>(plain.get_desc().get_size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + name + ".out");
}

dnnl::matmul::primitive_desc make_product(Device& device, const memory::desc& a,
                                          const memory::desc& b, const memory::desc& c,
                                          const dnnl::post_ops& after) {
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(after);
  return {{a, b, c}, attributes, device.engine};
}

}  // namespace peer
