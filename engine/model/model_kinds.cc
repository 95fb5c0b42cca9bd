#include "engine/model/model_kinds.h"

#include <variant>

#include "engine/model/gat.h"
#include "engine/model/gatv2.h"
#include "engine/model/gcn.h"
#include "engine/model/gin.h"
#include "engine/model/sage.h"

namespace hearth::model {
namespace {

// All kinds of model; one that is missing does not compile.
struct NewKind {
  using Result = std::unique_ptr<ModelKind>;

  Result operator()(const train::SageOptions& sage) { return NewSage(sage); }
  Result operator()(const train::GcnOptions& gcn) { return NewGcn(gcn); }
  Result operator()(const train::GatOptions& gat) { return NewGat(gat); }
  Result operator()(const train::Gatv2Options& v2) { return NewGatv2(v2); }
  Result operator()(const train::GinOptions& gin) { return NewGin(gin); }
  Result operator()(const train::NoModelOptions&) { return nullptr; }
};

}  // namespace

std::unique_ptr<ModelKind> NewModelKind(const train::ModelOptions& options) {
  return std::visit(NewKind{}, options);
}

}  // namespace hearth::model
