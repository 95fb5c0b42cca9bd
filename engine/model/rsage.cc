#include "engine/model/rsage.h"

#include "engine/model/hetero_convolution.h"
#include "engine/model/hetero_kind.h"

namespace hearth::model {
namespace {

class MeanConvolution final : public RelationConvolution {
 public:
  MeanConvolution(const RelationPlace& place, Initializer& initializer)
      : weight_(initializer.Linear({place.out, place.source_columns},
                                   place.source_columns)),
        bias_(initializer.Linear({place.out}, place.source_columns)) {}

  at::Tensor Forward(const RelationBlock& relation, const Sets& sets,
                     RelationInputs& inputs) const override {
    return inputs.TakeMean(sets.sources, relation, weight_);
  }

  const at::Tensor& bias() const override { return bias_; }

  std::vector<NamedTensor> parameters() const override {
    return {{"lin_l.weight", weight_}, {"lin_l.bias", bias_}};
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

class RsageKind final : public HeteroKind {
 public:
  RsageKind(const train::RsageOptions& options, const train::ModelShape& shape)
      : HeteroKind(shape), options_(options) {}

  std::string name() const override { return "rsage"; }
  int64_t hidden() const override { return options_.hidden; }

 protected:
  std::unique_ptr<RelationConvolution> NewRelation(
      const RelationPlace& place, Initializer& initializer) const override {
    return std::make_unique<MeanConvolution>(place, initializer);
  }

  Bytes RelationParameterBytes(const RelationPlace& place) const override {
    return LinearBytes(place.source_columns, place.out);
  }

 private:
  const train::RsageOptions options_;
};

}  // namespace

std::unique_ptr<ModelKind> NewRsage(const train::RsageOptions& options,
                                    const train::ModelShape& shape) {
  return std::make_unique<RsageKind>(options, shape);
}

}  // namespace hearth::model
