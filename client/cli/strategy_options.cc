#include "client/cli/strategy_options.h"

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"

namespace hearth::cli {
namespace {

// "auto", or 0: the daemon's choice.
bool IsAuto(OptionReader& options, const std::string& name) {
  return options.Text(name).value_or("auto") == "auto";
}

uint64_t BytesOrAuto(OptionReader& options, const std::string& name) {
  return IsAuto(options, name) ? 0 : options.Bytes(name).value_or(0);
}

void ReadBudgets(OptionReader& options, v1::DataSpec* data) {
  const std::optional<uint64_t> cpu_cache = options.Bytes("cpu-cache");
  if (cpu_cache) data->mutable_budgets()->set_cpu_cache_bytes(*cpu_cache);
}

void ReadGnndrive(OptionReader& options, v1::DataSpec* data) {
  const uint64_t staging = BytesOrAuto(options, "staging");
  if (staging > 0) data->mutable_budgets()->set_staging_bytes(staging);
  v1::GnndriveStrategy* gnndrive = data->mutable_gnndrive();
  gnndrive->set_reorder(options.Flag("reorder"));
  gnndrive->set_buffered_reads(options.Flag("buffered-reads"));
  gnndrive->set_sample_queue(options.PositiveOrDefault("sample-queue"));
  gnndrive->set_train_queue(options.PositiveOrDefault("train-queue"));
}

void ReadGinex(OptionReader& options, v1::DataSpec* data) {
  v1::GinexStrategy* ginex = data->mutable_ginex();
  if (!IsAuto(options, "superbatch")) {
    ginex->set_superbatch(options.PositiveOrDefault("superbatch"));
  }
  ginex->set_neighbor_cache_bytes(BytesOrAuto(options, "neighbor-cache"));
}

std::string AutoOr(uint64_t value) {
  return value == 0 ? "auto" : absl::StrCat(value);
}

const char* TrueOrFalse(bool value) { return value ? "true" : "false"; }

}  // namespace

void ReadStrategy(OptionReader& options, v1::DataSpec* data) {
  const std::string name = options.Choice(
      "strategy", {"memory", "mmap", "gnndrive", "ginex"}, "memory");
  const bool gnndrive = name == "gnndrive";
  const bool ginex = name == "ginex";
  if (!gnndrive && !ginex) {
    options.Refuse("cpu-cache", "applies to strategies gnndrive and ginex");
    options.Refuse("io-depth", "applies to strategies gnndrive and ginex");
  }
  if (!gnndrive) {
    for (const char* option : {"staging", "reorder", "buffered-reads",
                               "sample-queue", "train-queue"}) {
      options.Refuse(option, "applies to strategy gnndrive only");
    }
  }
  if (!ginex) {
    for (const char* option : {"superbatch", "neighbor-cache"}) {
      options.Refuse(option, "applies to strategy ginex only");
    }
  }
  if (name != "mmap") {
    options.Refuse("mmap-advice", "applies to strategy mmap only");
  }
  ReadBudgets(options, data);
  if (gnndrive) {
    ReadGnndrive(options, data);
  } else if (ginex) {
    ReadGinex(options, data);
  } else if (name == "mmap") {
    data->mutable_mmap()->set_read_ahead(options.Choice("mmap-advice",
                                                        {"random", "normal"},
                                                        "random") == "normal");
  } else {
    data->mutable_memory();
  }
}

std::vector<std::pair<std::string, std::string>> OptionsOfStrategy(
    const v1::DataSpec& data) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto add_cpu_cache = [&] {
    out.emplace_back("cpu-cache",
                     absl::StrCat(data.budgets().cpu_cache_bytes()));
  };
  switch (data.strategy_case()) {
    case v1::DataSpec::kGnndrive: {
      const v1::GnndriveStrategy& gnndrive = data.gnndrive();
      out.emplace_back("strategy", "gnndrive");
      add_cpu_cache();
      out.emplace_back("staging", AutoOr(data.budgets().staging_bytes()));
      out.emplace_back("reorder", TrueOrFalse(gnndrive.reorder()));
      out.emplace_back("buffered-reads",
                       TrueOrFalse(gnndrive.buffered_reads()));
      out.emplace_back("sample-queue", absl::StrCat(gnndrive.sample_queue()));
      out.emplace_back("train-queue", absl::StrCat(gnndrive.train_queue()));
      break;
    }
    case v1::DataSpec::kGinex:
      out.emplace_back("strategy", "ginex");
      add_cpu_cache();
      out.emplace_back("superbatch", AutoOr(data.ginex().superbatch()));
      out.emplace_back("neighbor-cache",
                       AutoOr(data.ginex().neighbor_cache_bytes()));
      break;
    case v1::DataSpec::kMmap:
      out.emplace_back("strategy", "mmap");
      out.emplace_back("mmap-advice",
                       data.mmap().read_ahead() ? "normal" : "random");
      break;
    case v1::DataSpec::kMemory:
    case v1::DataSpec::STRATEGY_NOT_SET:
      out.emplace_back("strategy", "memory");
  }
  return out;
}

}  // namespace hearth::cli
