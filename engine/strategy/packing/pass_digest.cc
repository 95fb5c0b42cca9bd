#include "engine/strategy/packing/pass_digest.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"

namespace hearth::strategy {

namespace {

// Adds values with a delimiter, so that no two lists have equal bytes.
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
  // Only other ways to draw add bytes here: plans of samples that each layer
  // draws anew for all nodes keep the keys that they had before there were any.
  for (const int32_t nodes : pass.sampler.layer_nodes) {
    Add(hash, "layer", nodes);
  }
  for (size_t type = 0; type < pass.sampler.fanouts_of.size(); ++type) {
    for (const int32_t fanout : pass.sampler.fanouts_of[type]) {
      Add(hash, "of", type, fanout);
    }
  }
  if (pass.sampler.once) Add(hash, "once");
  if (pass.history != nullptr) {
    Add(hash, "history", pass.history->staleness,
        pass.history->candidates->digest());
  }
  Add(hash, seeds.size());
  hash.Update({reinterpret_cast<const std::byte*>(seeds.data()),
               seeds.size() * sizeof(store::NodeId)});
  return hash.HexDigest();
}

}  // namespace hearth::strategy
