#include "engine/strategy/diskgnn/plan_key.h"

#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/history.h"

namespace hearth::strategy {
namespace {

// The version of what is hashed and of how plans are made; files have versions
// of their own.
constexpr char kFormat[] = "hearth diskgnn plan 1";

// Every number and text with a delimiter, so that no two lists read alike.
template <typename... Values>
void Add(Sha256& hash, const Values&... values) {
  hash.Update(absl::StrCat(values..., ";"));
}

}  // namespace

std::string DigestOfPass(const Pass& pass,
                         absl::Span<const store::NodeId> seeds) {
  Sha256 hash;
  Add(hash, pass.epoch_key);
  Add(hash, pass.sampler.data_seed);
  Add(hash, pass.batch_size);
  Add(hash, pass.shards);
  Add(hash, pass.sampler.fanouts.size());
  for (const int32_t fanout : pass.sampler.fanouts) Add(hash, fanout);
  // Plans of node-wise samples keep the keys that they had.
  for (const int32_t nodes : pass.sampler.layer_nodes) {
    Add(hash, "layer", nodes);
  }
  for (size_t type = 0; type < pass.sampler.fanouts_of.size(); ++type) {
    for (const int32_t fanout : pass.sampler.fanouts_of[type]) {
      Add(hash, "of", type, fanout);
    }
  }
  if (pass.history != nullptr) {
    Add(hash, "history", pass.history->staleness,
        pass.history->candidates->digest());
  }
  Add(hash, seeds.size());
  hash.Update({reinterpret_cast<const std::byte*>(seeds.data()),
               seeds.size() * sizeof(store::NodeId)});
  return hash.HexDigest();
}

PlanKey KeyOfPlan(absl::string_view dataset_fingerprint,
                  const DiskgnnOptions& options, int64_t row_bytes,
                  absl::Span<const PlannedPass> passes) {
  Sha256 hash;
  Add(hash, kFormat);
  Add(hash, dataset_fingerprint);
  Add(hash, row_bytes);
  Add(hash, options.gpu_cache_bytes);
  Add(hash, options.cpu_cache_bytes);
  Add(hash, options.disk_cache_bytes.has_value()
                ? absl::StrCat(*options.disk_cache_bytes)
                : "as found");
  Add(hash, options.disk_limit_bytes);
  for (const PlannedPass& pass : passes) Add(hash, pass.digest);
  const std::string digest = hash.HexDigest();
  PlanKey key = {.name = plan::PlanName("diskgnn", dataset_fingerprint,
                                        digest.substr(0, 32))};
  // Cannot fail: 16 hexadecimal digits.
  (void)absl::SimpleHexAtoi(digest.substr(0, 16), &key.id);
  return key;
}

}  // namespace hearth::strategy
