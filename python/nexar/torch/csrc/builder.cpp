#include "builder.hpp"

#include <ATen/ATen.h>

namespace nexar {

Builder::Builder(ProcessGroupNexar &group, const char *name, c10d::OpType type,
                 std::chrono::milliseconds timeout)
    : group_(group), name_(name), type_(type), comm_(group.comm()),
      op_(std::make_shared<Operation>()) {
    op_->name = name;
    op_->world = group.world();
    op_->timeout = timeout == c10d::kUnsetTimeout ? group.timeout_ : timeout;
    const bool endless = op_->timeout > std::chrono::hours(24 * 365);
    op_->deadline = endless ? Clock::time_point::max() : Clock::now() + op_->timeout;
    op_->result = c10::List<at::Tensor>();
}

Builder::~Builder() {
    if (!op_ || op_->requests.empty())
        return;
    op_->owned = true;
    op_->world->completer().add(op_);
}

const at::Tensor &Builder::keep(const at::Tensor &tensor) {
    op_->buffers.push_back(tensor);
    return tensor;
}

std::shared_ptr<Flat> Builder::keep(std::shared_ptr<Flat> flat) {
    for (const at::Tensor &tensor : flat->list())
        keep(tensor);
    keep(flat->tensor());
    return flat;
}

at::Tensor Builder::copiedBack(const at::Tensor &tensor, at::Tensor memory) {
    keep(tensor);
    keep(memory);
    if (!memory.is_same(tensor))
        atEnd([tensor, memory] { tensor.copy_(memory); });
    return memory;
}

at::Tensor Builder::inPlace(const at::Tensor &tensor) {
    return copiedBack(tensor, dense(tensor));
}

at::Tensor Builder::target(const at::Tensor &tensor) {
    const bool direct = tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
    return copiedBack(tensor, direct ? tensor
                                     : at::empty(tensor.sizes(),
                                                 tensor.options().requires_grad(false)));
}

void Builder::outputs(const Tensors &tensors) {
    op_->outputs = tensors;
    op_->result = c10::IValue(tensors);
}

void Builder::outputs(const std::vector<Tensors> &lists) {
    if (lists.size() == 1)
        return outputs(lists[0]);
    op_->result = c10::IValue(lists);
    for (const Tensors &list : lists)
        op_->outputs.insert(op_->outputs.end(), list.begin(), list.end());
}

WorkPtr Builder::work(const Tensors &inputs) {
    if (!steps_.empty())
        op_->finish = [steps = std::move(steps_)] {
            for (const auto &step : steps)
                step();
        };
    const bool collective = type_ != c10d::OpType::SEND && type_ != c10d::OpType::RECV &&
                            type_ != c10d::OpType::RECVANYSOURCE;
    if (collective)
        group_.sequence_++;
    const std::string title = std::string("nexar:") + name_;
    auto op = std::move(op_);
    op_ = nullptr;
    if (op->requests.empty())
        op->conclude(nullptr);
    return c10::make_intrusive<NexarWork>(
        std::move(op), group_.getRank(), type_, group_.sequence_, title.c_str(),
        inputs.empty() ? std::nullopt : std::optional<Tensors>(inputs));
}

} // namespace nexar
