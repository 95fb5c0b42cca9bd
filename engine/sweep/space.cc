#include "engine/sweep/space.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/random.h"

namespace hearth::sweep {
namespace {

// Purpose of a sweep's draws; must differ from the purposes in random.h.
constexpr auto kDrawing = static_cast<RandomPurpose>(1000);

// FNV-1a.
uint64_t HashOf(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

// `value` with six significant digits, but never beyond the range.
std::string RealText(const RealRange& range, double value) {
  double rounded = value;
  const std::string text = absl::StrFormat("%.6g", value);
  if (!absl::SimpleAtod(text, &rounded)) rounded = value;
  if (rounded >= range.low && rounded <= range.high) return text;
  return absl::StrFormat("%.17g", std::clamp(value, range.low, range.high));
}

// Value at `share` (0 to 1) of the way from low to high.
double At(const RealRange& range, double share) {
  if (!range.is_log) return range.low + share * (range.high - range.low);
  const double low = std::log(range.low);
  return std::exp(low + share * (std::log(range.high) - low));
}

// Share of step `index` of `steps`.
double ShareOf(int64_t index, int64_t steps) {
  return steps == 1
             ? 0
             : static_cast<double>(index) / static_cast<double>(steps - 1);
}

// Number of integers in the range, at most INT64_MAX.
int64_t Count(const IntRange& range) {
  const uint64_t count =
      static_cast<uint64_t>(range.high) - static_cast<uint64_t>(range.low);
  return count >= static_cast<uint64_t>(INT64_MAX)
             ? INT64_MAX
             : static_cast<int64_t>(count) + 1;
}

// Number of values of one parameter in a grid, and each of them.
class GridAxis {
 public:
  int64_t Size(const Domain& domain) const {
    return std::visit([](const auto& d) { return SizeOf(d); }, domain);
  }
  std::string Value(const Domain& domain, int64_t index) const {
    return std::visit([&](const auto& d) { return ValueOf(d, index); }, domain);
  }

 private:
  static int64_t SizeOf(const Choice& choice) {
    return static_cast<int64_t>(choice.values.size());
  }
  static int64_t SizeOf(const IntRange& range) {
    return range.steps == 0 ? Count(range)
                            : std::min(range.steps, Count(range));
  }
  static int64_t SizeOf(const RealRange& range) { return range.steps; }

  static std::string ValueOf(const Choice& choice, int64_t index) {
    return choice.values[static_cast<size_t>(index)];
  }
  static std::string ValueOf(const IntRange& range, int64_t index) {
    const int64_t size = SizeOf(range);
    if (size == Count(range)) return absl::StrCat(range.low + index);
    const double offset =
        ShareOf(index, size) *
        (static_cast<double>(range.high) - static_cast<double>(range.low));
    return absl::StrCat(range.low + std::llround(offset));
  }
  static std::string ValueOf(const RealRange& range, int64_t index) {
    return RealText(range, At(range, ShareOf(index, range.steps)));
  }
};

std::string DrawValue(const Domain& domain, RandomStream& random) {
  if (const auto* choice = std::get_if<Choice>(&domain)) {
    return choice->values[random.Below(choice->values.size())];
  }
  if (const auto* range = std::get_if<IntRange>(&domain)) {
    const uint64_t offset = random.Below(static_cast<uint64_t>(Count(*range)));
    return absl::StrCat(range->low + static_cast<int64_t>(offset));
  }
  const auto& range = std::get<RealRange>(domain);
  const double share = static_cast<double>(random.Next64() >> 11) * 0x1.0p-53;
  return RealText(range, At(range, share));
}

}  // namespace

std::string FaultOf(const Domain& domain) {
  if (const auto* choice = std::get_if<Choice>(&domain)) {
    return choice->values.empty() ? "must have a value" : "";
  }
  if (const auto* range = std::get_if<IntRange>(&domain)) {
    if (range->steps < 0) return "must have at least one step";
    return range->low > range->high ? "must go from low to high" : "";
  }
  const auto& range = std::get<RealRange>(domain);
  if (!std::isfinite(range.low) || !std::isfinite(range.high)) {
    return "must go from one finite number to another";
  }
  if (range.low > range.high) return "must go from low to high";
  if (range.is_log && range.low <= 0) {
    return "must be above 0, for its logarithm is searched";
  }
  return range.steps < 0 ? "must have at least one step" : "";
}

std::string GridFaultOf(const Domain& domain) {
  const auto* range = std::get_if<RealRange>(&domain);
  return range != nullptr && range->steps == 0
             ? "must say how many values of the range are tried in a grid"
             : "";
}

int64_t GridSize(const Space& space, int64_t most) {
  int64_t size = 1;
  for (const Parameter& parameter : space) {
    const int64_t values = GridAxis().Size(parameter.domain);
    if (values > most || size > most / values) return most + 1;
    size *= values;
  }
  return size;
}

Point GridPoint(const Space& space, int64_t index) {
  Point point(space.size());
  for (size_t i = space.size(); i-- > 0;) {
    const int64_t values = GridAxis().Size(space[i].domain);
    point[i] = {space[i].name,
                GridAxis().Value(space[i].domain, index % values)};
    index /= values;
  }
  return point;
}

std::optional<Space> EveryPoint(const Space& space) {
  Space every = space;
  for (Parameter& parameter : every) {
    if (auto* integers = std::get_if<IntRange>(&parameter.domain)) {
      integers->steps = 0;
    } else if (auto* range = std::get_if<RealRange>(&parameter.domain)) {
      if (range->low != range->high) return std::nullopt;
      range->steps = 1;
    }
  }
  return every;
}

Point DrawPoint(const Space& space, uint64_t seed, int64_t trial) {
  Point point;
  for (const Parameter& parameter : space) {
    RandomStream random(seed, kDrawing, static_cast<uint64_t>(trial),
                        HashOf(parameter.name));
    point.push_back({parameter.name, DrawValue(parameter.domain, random)});
  }
  return point;
}

}  // namespace hearth::sweep
