// builder.hpp - makes the Operation of one call, and its Work.
#ifndef NEXAR_TORCH_BUILDER_HPP
#define NEXAR_TORCH_BUILDER_HPP

#include "process_group.hpp"

namespace nexar {

class Builder {
  public:
    Builder(ProcessGroupNexar &group, const char *name, c10d::OpType type,
            std::chrono::milliseconds timeout);
    // Requests that were started stay with the completer if the call failed later.
    ~Builder();
    Builder(const Builder &) = delete;
    Builder &operator=(const Builder &) = delete;

    nexar_comm *comm() const { return comm_; }

    // Calls a function of nexar that returns a request; throws on error.
    template <typename Call> void start(Call call) {
        nexar_request *request = nullptr;
        check(call(&request), name_);
        op_->requests.push_back(request);
    }

    // |tensor| belongs to nexar until the requests have ended.
    const at::Tensor &keep(const at::Tensor &tensor);
    // Dense memory with the contents of |tensor|; a copy goes back to |tensor| at the end.
    at::Tensor inPlace(const at::Tensor &tensor);
    // Dense memory for the result in |tensor|, as inPlace() but without its contents.
    at::Tensor target(const at::Tensor &tensor);
    std::shared_ptr<Flat> keep(std::shared_ptr<Flat> flat);
    void atEnd(std::function<void()> step) { steps_.push_back(std::move(step)); }

    void outputs(const Tensors &tensors);
    void outputs(const std::vector<Tensors> &lists);

    WorkPtr work(const Tensors &inputs = {});

  private:
    at::Tensor copiedBack(const at::Tensor &tensor, at::Tensor memory);

    ProcessGroupNexar &group_;
    const char *name_;
    c10d::OpType type_;
    nexar_comm *comm_;
    std::shared_ptr<Operation> op_;
    std::vector<std::function<void()>> steps_;
};

} // namespace nexar
#endif
