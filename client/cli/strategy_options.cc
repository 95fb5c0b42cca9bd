#include "client/cli/strategy_options.h"

#include <cstdint>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

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

// A size, or as many times the features as a number before an "x" says.
void ReadDiskLimit(OptionReader& options, v1::DiskgnnStrategy* diskgnn) {
  const std::optional<std::string> text = options.Text("disk-limit");
  if (!text) return;
  double ratio = 0;
  absl::string_view number = *text;
  if (absl::ConsumeSuffix(&number, "x") && absl::SimpleAtod(number, &ratio)) {
    diskgnn->set_disk_limit_ratio(ratio);
  } else if (const auto bytes = options.Bytes("disk-limit")) {
    diskgnn->set_disk_limit_bytes(*bytes);
  }
}

void ReadDiskgnn(OptionReader& options, v1::DataSpec* data) {
  v1::DiskgnnStrategy* diskgnn = data->mutable_diskgnn();
  if (!IsAuto(options, "disk-cache")) {
    if (const auto bytes = options.Bytes("disk-cache")) {
      diskgnn->set_disk_cache_bytes(*bytes);
    }
  }
  ReadDiskLimit(options, diskgnn);
  diskgnn->set_prepare_memory_bytes(
      options.Bytes("prepare-memory").value_or(0));
  const std::optional<uint64_t> gpu_cache = options.Bytes("gpu-cache");
  if (gpu_cache) data->mutable_budgets()->set_gpu_cache_bytes(*gpu_cache);
}

std::string DiskLimit(const v1::DiskgnnStrategy& diskgnn) {
  if (diskgnn.has_disk_limit_ratio()) {
    return absl::StrCat(diskgnn.disk_limit_ratio(), "x");
  }
  return diskgnn.disk_limit_bytes() == 0
             ? "none"
             : absl::StrCat(diskgnn.disk_limit_bytes());
}

std::string AutoOr(uint64_t value) {
  return value == 0 ? "auto" : absl::StrCat(value);
}

const char* TrueOrFalse(bool value) { return value ? "true" : "false"; }

}  // namespace

void ReadStrategy(OptionReader& options, v1::DataSpec* data) {
  const std::string name = options.Choice(
      "strategy", {"memory", "mmap", "gnndrive", "ginex", "diskgnn"}, "memory");
  const bool gnndrive = name == "gnndrive";
  const bool ginex = name == "ginex";
  const bool diskgnn = name == "diskgnn";
  if (!gnndrive && !ginex && !diskgnn) {
    for (const char* option : {"cpu-cache", "io-depth"}) {
      options.Refuse(option,
                     "applies to strategies gnndrive, ginex and diskgnn");
    }
  }
  if (!diskgnn) {
    for (const char* option :
         {"disk-cache", "disk-limit", "prepare-memory", "gpu-cache"}) {
      options.Refuse(option, "applies to strategy diskgnn only");
    }
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
  } else if (diskgnn) {
    ReadDiskgnn(options, data);
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
    case v1::DataSpec::kDiskgnn: {
      const v1::DiskgnnStrategy& diskgnn = data.diskgnn();
      out.emplace_back("strategy", "diskgnn");
      add_cpu_cache();
      out.emplace_back("gpu-cache",
                       absl::StrCat(data.budgets().gpu_cache_bytes()));
      out.emplace_back("disk-cache",
                       diskgnn.has_disk_cache_bytes()
                           ? absl::StrCat(diskgnn.disk_cache_bytes())
                           : "auto");
      out.emplace_back("disk-limit", DiskLimit(diskgnn));
      out.emplace_back("prepare-memory",
                       absl::StrCat(diskgnn.prepare_memory_bytes()));
      break;
    }
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
