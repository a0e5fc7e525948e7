// Why did a gradient check fail? Experiments around the worst entry: each changes one thing and looks whether the failure
// changes with it. For the thread that owns the point.
#pragma once

#include <string>
#include <vector>

#include "autograd/differences.h"

namespace seqgrad {

// One sentence, or "" when no experiment explains the failure. In the order in which they are tried: a forward or backward that
// is not deterministic; NaN; a gradient overwritten instead of accumulated; rounding to f32; a step too small for f64; a kink,
// a jump or strong curvature near the point; a tolerance finer than differences resolve; memory that is not contiguous; a
// gradient that is transposed, zero, of the other sign, scaled, not summed over a broadcast axis, or wrong in some entries
// only.
std::string likely_cause(CheckedPoint& point, const std::vector<Tensor>& analytic, const GradcheckReport& report,
                         const GradcheckOptions& options);

// The same for a check that ended with an error: a gradient of the wrong shape or type.
std::string likely_cause(const std::string& error);

// How two runs differ by more than options.nondet_tol, in one sentence; "" where they do not.
std::string not_deterministic(CheckedPoint& point, const std::vector<Tensor>& analytic, const GradcheckOptions& options);

// The gradients that each output gives alone, the others without a cotangent, must add up to `analytic`. Where they do not the
// report says so.
void compare_outputs_alone(GradcheckReport& report, CheckedPoint& point, const std::vector<Tensor>& analytic,
                           const GradcheckOptions& options);

// The gradient of f(x) + f(x) against twice `analytic`, that of f(x). Where they differ the report gets that entry, with half
// the former as analytic and the latter as numeric.
void compare_twice(GradcheckReport& report, CheckedPoint& point, const std::vector<Tensor>& analytic,
                   const GradcheckOptions& options, TapeProbe* probe = nullptr);

}  // namespace seqgrad
