#ifndef HEARTH_ENGINE_MODEL_SAVED_VALUE_H_
#define HEARTH_ENGINE_MODEL_SAVED_VALUE_H_

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace hearth::model {

/// A value of any type as autograd can keep it between forward and backward.
template <typename T>
struct SavedValue final : torch::CustomClassHolder {
  explicit SavedValue(T value) : value(std::move(value)) {}
  T value;
};

/// Keeps `value` for backward; one for each context.
template <typename T>
void SaveValue(torch::autograd::AutogradContext* context, T value) {
  context->saved_data["value"] = c10::IValue::make_capsule(
      c10::make_intrusive<SavedValue<T>>(std::move(value)));
}

/// The value that SaveValue kept, of the same type.
template <typename T>
T LoadValue(torch::autograd::AutogradContext* context) {
  const auto capsule = context->saved_data["value"].toCapsule();
  return static_cast<SavedValue<T>*>(capsule.get())->value;
}

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_SAVED_VALUE_H_
