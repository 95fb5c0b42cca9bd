#ifndef HEARTH_ENGINE_SWEEP_SPACE_H_
#define HEARTH_ENGINE_SWEEP_SPACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// The space that a sweep searches: named parameters, and the values that each
/// may have. Values are texts, as on a command line; the owner of the
/// parameters knows their meaning.

namespace hearth::sweep {

/// One of several values.
struct Choice {
  std::vector<std::string> values;
};

/// An integer from `low` to `high`, both included.
struct IntRange {
  int64_t low = 0;
  int64_t high = 0;
  /// Number of values of a grid, evenly spaced from `low` to `high`; 0 = all
  /// integers.
  int64_t steps = 0;
};

/// A real number from `low` to `high`, uniformly distributed, or with a
/// uniformly distributed logarithm.
struct RealRange {
  double low = 0;
  double high = 0;
  /// Number of values of a grid, evenly spaced from `low` to `high`.
  int64_t steps = 0;
  bool is_log = false;
};

using Domain = std::variant<Choice, IntRange, RealRange>;

struct Parameter {
  std::string name;
  Domain domain;
};

/// Parameters of different names.
using Space = std::vector<Parameter>;

/// A value of one parameter.
struct Setting {
  std::string name;
  std::string value;

  friend bool operator==(const Setting&, const Setting&) = default;
};

/// A value of each parameter of a space, in its order.
using Point = std::vector<Setting>;

/// Fault of a domain ("must have a value"); empty if it has none.
std::string FaultOf(const Domain& domain);

/// Fault for which a domain cannot be in a grid, though it has no other fault;
/// empty if there is none.
std::string GridFaultOf(const Domain& domain);

/// Number of points of the grid over `space`, at most `most` + 1. REQUIRES: no
/// domain has a fault or a grid fault.
int64_t GridSize(const Space& space, int64_t most);

/// Point `index` of the grid: the last parameter changes fastest.
/// REQUIRES: 0 <= index < GridSize(space, index).
Point GridPoint(const Space& space, int64_t index);

/// The space whose grid has each point that DrawPoint may return, once: ignores
/// steps. nullopt if there is a range of more than one real number. REQUIRES:
/// no domain has a fault.
std::optional<Space> EveryPoint(const Space& space);

/// Point of trial `trial`. Each value is a function of the seed, the trial and
/// the parameter's name alone, so that another parameter, or more trials,
/// change no value. Real numbers have six significant digits. REQUIRES: no
/// domain has a fault.
Point DrawPoint(const Space& space, uint64_t seed, int64_t trial);

}  // namespace hearth::sweep

#endif  // HEARTH_ENGINE_SWEEP_SPACE_H_
