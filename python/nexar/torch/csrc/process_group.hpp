// process_group.hpp - torch.distributed's backend "nexar" for CPU tensors.
#ifndef NEXAR_TORCH_PROCESS_GROUP_HPP
#define NEXAR_TORCH_PROCESS_GROUP_HPP

#include "operation.hpp"
#include "tensors.hpp"

namespace nexar {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

class Builder;

// Functions without `override` exist in newer versions of torch only; there they override.
class ProcessGroupNexar : public c10d::Backend {
  public:
    // On the world itself.  |closes|: it ends with shutdown() of this process group.
    ProcessGroupNexar(std::shared_ptr<World> world, std::chrono::milliseconds timeout, bool closes);
    // On a new communicator of the |ranks| of |world|, which all call with one |tag|.
    static c10::intrusive_ptr<ProcessGroupNexar> create(std::shared_ptr<World> world,
                                                        const std::vector<int> &ranks, uint64_t tag,
                                                        std::chrono::milliseconds timeout);
    // On |comm|, a communicator of |world|, which shutdown() frees.
    ProcessGroupNexar(std::shared_ptr<World> world, nexar_comm *comm,
                      std::chrono::milliseconds timeout);
    ~ProcessGroupNexar() override;

    const std::string getBackendName() const override { return "nexar"; }
    void setTimeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
    c10::intrusive_ptr<Options> getBackendOptions();
    std::shared_ptr<World> world() const { return world_; }
    nexar_comm *comm() const;

    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) override;
    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
    WorkPtr allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &opts) override;
    WorkPtr allreduce_coalesced(Tensors &tensors,
                                const c10d::AllreduceCoalescedOptions &opts) override;
    WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &opts) override;
    WorkPtr allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                      const c10d::AllgatherOptions &opts) override;
    WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input,
                            const c10d::AllgatherOptions &opts) override;
    WorkPtr allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                const c10d::AllgatherOptions &opts) override;
    WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::AllgatherOptions &opts) override;
    WorkPtr gather(std::vector<Tensors> &outputs, Tensors &inputs,
                   const c10d::GatherOptions &opts) override;
    WorkPtr scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                    const c10d::ScatterOptions &opts) override;
    WorkPtr reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                           const c10d::ReduceScatterOptions &opts) override;
    WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                 const c10d::ReduceScatterOptions &opts) override;
    WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::ReduceScatterOptions &opts) override;
    WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &outputSplits,
                          std::vector<int64_t> &inputSplits,
                          const c10d::AllToAllOptions &opts) override;
    WorkPtr alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &opts) override;
    WorkPtr send(Tensors &tensors, int destination, int tag) override;
    WorkPtr recv(Tensors &tensors, int source, int tag) override;
    WorkPtr recvAnysource(Tensors &tensors, int tag) override;
    WorkPtr barrier(const c10d::BarrierOptions &opts) override;
    void monitoredBarrier(const c10d::BarrierOptions &opts, bool waitAllRanks) override;
    // An allreduce that sends a compressed form; |residual| keeps what was not sent.
    WorkPtr allreduceCompressed(at::Tensor tensor, const std::string &how, double ratio,
                                std::optional<at::Tensor> residual);

    void setSequenceNumberForGroup() override {}
    uint64_t getSequenceNumberForGroup() override { return sequence_; }
    // Revokes the communicator: pending and later operations fail on all ranks.
    void abort();
    void shutdown();

  private:
    friend class Builder;
    WorkPtr receive(at::Tensor &tensor, int source, int tag, c10d::OpType type, const char *name);
    void startAllgather(Builder &build, const at::Tensor &output, const at::Tensor &input);
    void startAllgatherList(Builder &build, const Tensors &outputs, const at::Tensor &input);
    void startReduceScatter(Builder &build, const at::Tensor &output, const at::Tensor &input,
                            const c10d::ReduceOp &op);
    at::Tensor gatherRows(const at::Tensor &rows, const std::vector<int64_t> &counts,
                          std::chrono::milliseconds timeout);
    void monitorAsRoot(uint64_t tag, std::chrono::milliseconds limit, bool all);
    void monitorAsMember(uint64_t tag, std::chrono::milliseconds limit);

    std::shared_ptr<World> world_;
    nexar_comm *comm_ = nullptr; // null: the world
    bool closes_ = false;
    std::chrono::milliseconds timeout_;
    uint64_t sequence_ = 0, monitored_ = 0;
};

} // namespace nexar
#endif
