#include "engine/strategy/packing/pass_digest.h"

#include <cstddef>

#include "engine/base/sha256.h"

namespace hearth::strategy {

std::string DigestOfPass(const Pass& pass,
                         absl::Span<const store::NodeId> seeds) {
  Sha256 hash;
  hash.AddField(pass.epoch_key);
  hash.AddField(pass.sampler.data_seed);
  hash.AddField(pass.batch_size);
  hash.AddField(pass.shards);
  hash.AddField(pass.sampler.fanouts.size());
  for (const int32_t fanout : pass.sampler.fanouts) hash.AddField(fanout);
  // Only other ways to draw add bytes here: plans of samples that each layer
  // draws anew for all nodes keep the keys that they had before there were any.
  for (const int32_t nodes : pass.sampler.layer_nodes) {
    hash.AddField("layer", nodes);
  }
  for (size_t type = 0; type < pass.sampler.fanouts_of.size(); ++type) {
    for (const int32_t fanout : pass.sampler.fanouts_of[type]) {
      hash.AddField("of", type, fanout);
    }
  }
  if (pass.sampler.once) hash.AddField("once");
  if (pass.history != nullptr) {
    hash.AddField("history", pass.history->staleness,
                  pass.history->candidates->digest());
  }
  if (pass.window.is_part()) {
    hash.AddField("window", pass.window.first, pass.window.all);
  }
  hash.AddField(seeds.size());
  hash.Update({reinterpret_cast<const std::byte*>(seeds.data()),
               seeds.size() * sizeof(store::NodeId)});
  return hash.HexDigest();
}

}  // namespace hearth::strategy
