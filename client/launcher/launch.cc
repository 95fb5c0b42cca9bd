#include "client/launcher/launch.h"

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"

namespace hearth::launcher {

namespace {

// As many machines as TrainJobSpec.machines may have.
constexpr uint32_t kMostRanks = 256;

// Names of one launcher's variables; those that may be null are not needed.
struct Names {
  const char* by;
  const char* rank;
  const char* size;
  const char* leader;
  const char* run;
  const char* local_rank;
  // Number of processes on this machine, or, if null, `machines`: the number of
  // machines.
  const char* local_size;
  const char* machines;
};

constexpr Names kLaunchers[] = {
    {.by = "HEARTH_RANK",
     .rank = "HEARTH_RANK",
     .size = "HEARTH_RANKS",
     .leader = "HEARTH_LEADER",
     .run = "HEARTH_RUN_ID",
     .local_rank = "HEARTH_LOCAL_RANK",
     .local_size = "HEARTH_LOCAL_RANKS",
     .machines = nullptr},
    {.by = "torchrun",
     .rank = "RANK",
     .size = "WORLD_SIZE",
     .leader = "MASTER_ADDR",
     .run = "TORCHELASTIC_RUN_ID",
     .local_rank = "LOCAL_RANK",
     .local_size = "LOCAL_WORLD_SIZE",
     .machines = nullptr},
    {.by = "srun",
     .rank = "SLURM_PROCID",
     .size = "SLURM_STEP_NUM_TASKS",
     .leader = "SLURM_STEP_NODELIST",
     .run = "SLURM_JOB_ID",
     .local_rank = "SLURM_LOCALID",
     .local_size = nullptr,
     .machines = "SLURM_STEP_NUM_NODES"},
};

std::string TextOf(const Variables& variables, const char* name) {
  const char* const value = name == nullptr ? nullptr : variables(name);
  return value == nullptr ? "" : value;
}

absl::StatusOr<uint32_t> NumberOf(const Variables& variables, const char* name,
                                  uint32_t fallback) {
  const std::string text = TextOf(variables, name);
  if (text.empty()) return fallback;
  uint32_t value = 0;
  if (absl::SimpleAtoi(text, &value)) return value;
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": must be a number, not \"", text, "\""));
}

// The first host of a list of Slurm's, such as "gpu[03-05,07],login1": of each
// pair of brackets the first number counts.
std::string FirstHost(absl::string_view list) {
  std::string host;
  bool in_brackets = false;
  bool is_passed_over = false;
  for (const char c : list) {
    if (c == '[') {
      in_brackets = true;
    } else if (c == ']') {
      in_brackets = false;
      is_passed_over = false;
    } else if (c == ',' && !in_brackets) {
      break;
    } else if (in_brackets && (c == ',' || c == '-')) {
      is_passed_over = true;
    } else if (!is_passed_over) {
      host += c;
    }
  }
  return host;
}

absl::StatusOr<Launch> Read(const Names& names, const Variables& variables) {
  Launch launch = {.by = names.by};
  HEARTH_ASSIGN_OR_RETURN(launch.size, NumberOf(variables, names.size, 1));
  HEARTH_ASSIGN_OR_RETURN(launch.rank, NumberOf(variables, names.rank, 0));
  if (launch.size == 0 || launch.size > kMostRanks) {
    return absl::InvalidArgumentError(absl::StrCat(
        names.size, ": must be from 1 to ", kMostRanks, ", not ", launch.size));
  }
  if (launch.rank >= launch.size) {
    return absl::InvalidArgumentError(
        absl::StrCat(names.rank, ": must be less than ", names.size, " (",
                     launch.size, "), not ", launch.rank));
  }
  launch.leader = FirstHost(TextOf(variables, names.leader));
  if (launch.size > 1 && launch.leader.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(names.leader, ": must be the host of rank 0"));
  }
  launch.run = TextOf(variables, names.run);
  HEARTH_ASSIGN_OR_RETURN(launch.local_rank,
                          NumberOf(variables, names.local_rank, 0));
  if (names.machines == nullptr) {
    HEARTH_ASSIGN_OR_RETURN(
        const uint32_t local_size,
        NumberOf(variables, names.local_size, launch.local_rank + 1));
    launch.shares_machine = local_size > 1;
    launch.is_on_one_machine = local_size == launch.size;
  } else {
    HEARTH_ASSIGN_OR_RETURN(const uint32_t machines,
                            NumberOf(variables, names.machines, launch.size));
    launch.shares_machine = machines < launch.size;
    launch.is_on_one_machine = machines == 1;
  }
  return launch;
}

}  // namespace

absl::StatusOr<std::optional<Launch>> FindLaunch(const Variables& variables) {
  for (const Names& names : kLaunchers) {
    if (variables(names.rank) == nullptr || variables(names.size) == nullptr) {
      continue;
    }
    HEARTH_ASSIGN_OR_RETURN(Launch launch, Read(names, variables));
    if (launch.size == 1) return std::nullopt;
    return launch;
  }
  return std::nullopt;
}

}  // namespace hearth::launcher
