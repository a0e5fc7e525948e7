#include "nn/schedule.h"

#include <algorithm>
#include <cmath>

namespace seqgrad::nn {

double LearningRate::at(i64 t, double factor) const {
  if (t <= warmup) return base * static_cast<double>(t) / static_cast<double>(warmup);
  double rate = base;
  if (schedule == Schedule::inverse_sqrt)
    rate *= std::sqrt(static_cast<double>(std::max<i64>(1, warmup)) / static_cast<double>(t));
  if (schedule == Schedule::plateau) rate *= factor;
  return std::max(rate, std::min(minimum, base));
}

void Plateau::measured(bool better, double decay, i64 patience) {
  bad = better ? 0 : bad + 1;
  if (bad < patience) return;
  bad = 0;
  factor *= decay;
}

}  // namespace seqgrad::nn
