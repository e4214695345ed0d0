// Uses the installed library as an outside program does: one feed-forward layer. Exits with 0 when
// the answers are right.
#include <fourfold/fourfold.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

int main() {
  using namespace fourfold;
  // y = gelu(x up^T + up_bias) down^T + down_bias with d_model 2, d_ff 3.
  const std::vector<float> up_data{1, 0, 0, 1, 1, -1}, down_data{1, 2, 3, -1, 0, 1};
  const std::vector<float> up_bias{0.5F, 0, -0.5F}, down_bias{0, 1}, x{1, 2};
  std::vector<float> y(2);
  Runtime runtime;
  Workspace workspace(runtime);
  const ConstMatrix up(up_data.data(), 3, 2), down(down_data.data(), 2, 3);
  const DenseFfn ffn({up, down, up_bias, down_bias}, Activation::gelu_erf);
  ffn.forward(ConstMatrix(x.data(), 1, 2), Matrix(y.data(), 1, 2), workspace);

  const auto gelu = [](double value) { return 0.5 * value * std::erfc(-value / std::sqrt(2.0)); };
  const double a = gelu(1.5), b = gelu(2), c = gelu(-1.5);
  const double expected[2] = {a + 2 * b + 3 * c, -a + c + 1};
  for (int i = 0; i < 2; ++i)
    if (!(std::abs(y[i] - expected[i]) <= 1e-5)) {
      std::printf("y[%d] = %g, expected %g\n", i, y[i], expected[i]);
      return 1;
    }
  try {
    ffn.forward(ConstMatrix(x.data(), 2, 1), Matrix(y.data(), 2, 1), workspace);
  } catch (const Error& error) {
    std::printf("%s on %u threads\n", std::string(runtime.isa()).c_str(), runtime.threads());
    return error.code == ErrorCode::shape_mismatch ? 0 : 1;
  }
  std::printf("a wrong shape was accepted\n");
  return 1;
}
