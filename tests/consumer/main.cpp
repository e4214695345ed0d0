// Uses the installed library as an outside program does. Exits with 0 when the answers are right.
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "fourfold/activation.h"
#include "fourfold/error.h"
#include "fourfold/runtime.h"

int main() {
  const std::vector<float> x{-1.5F, 0.0F, 2.0F};
  std::vector<float> y(x.size());
  fourfold::activate(fourfold::parse_activation("gelu"), x, y);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double expected = 0.5 * x[i] * std::erfc(-x[i] / std::sqrt(2.0));
    if (!(std::abs(y[i] - expected) <= 1e-6)) {
      std::printf("gelu(%g) = %g, expected %g\n", x[i], y[i], expected);
      return 1;
    }
  }
  try {
    fourfold::parse_activation("no such activation");
  } catch (const fourfold::Error& error) {
    const fourfold::Runtime runtime({.count = 2, .pin = true});
    const bool right = error.code == fourfold::ErrorCode::unsupported && runtime.threads() == 2;
    std::printf("instruction set %s\n", std::string(runtime.isa()).c_str());
    return right ? 0 : 1;
  }
  std::printf("an unknown activation was accepted\n");
  return 1;
}
