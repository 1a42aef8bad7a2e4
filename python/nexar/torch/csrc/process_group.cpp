#include "process_group.hpp"
#include "builder.hpp"

#include <ATen/ATen.h>
#include <c10/util/Logging.h>

namespace nexar {

using c10d::OpType;

ProcessGroupNexar::ProcessGroupNexar(std::shared_ptr<World> world,
                                     std::chrono::milliseconds timeout, bool closes)
    : Backend(world->rank(), world->size()), world_(std::move(world)), closes_(closes),
      timeout_(timeout) {}

ProcessGroupNexar::ProcessGroupNexar(std::shared_ptr<World> world, nexar_comm *comm,
                                     std::chrono::milliseconds timeout)
    : Backend(nexar_rank(comm), nexar_size(comm)), world_(std::move(world)), comm_(comm),
      timeout_(timeout) {}

c10::intrusive_ptr<ProcessGroupNexar>
ProcessGroupNexar::create(std::shared_ptr<World> world, const std::vector<int> &ranks, uint64_t tag,
                          std::chrono::milliseconds timeout) {
    nexar_comm *comm = nullptr;
    check(nexar_comm_create(world->comm(), ranks.data(), ranks.size(), tag, &comm), "new_group");
    return c10::make_intrusive<ProcessGroupNexar>(std::move(world), comm, timeout);
}

ProcessGroupNexar::~ProcessGroupNexar() { shutdown(); }

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupNexar::getBackendOptions() {
    return c10::make_intrusive<Options>("nexar", timeout_);
}

nexar_comm *ProcessGroupNexar::comm() const {
    if (!world_)
        C10_THROW_ERROR(DistBackendError, "nexar: the process group was destroyed");
    nexar_comm *root = world_->comm();
    return comm_ ? comm_ : root;
}

void ProcessGroupNexar::abort() {
    if (world_ && world_->usable())
        check(nexar_comm_revoke(comm()), "abort");
}

void ProcessGroupNexar::shutdown() {
    if (!world_)
        return;
    if (comm_ && world_->usable())
        nexar_comm_free(comm_);
    else if (closes_)
        world_->close();
    comm_ = nullptr;
    world_ = nullptr;
}

// ---- one tensor on every rank ----------------------------------------------------------------

WorkPtr ProcessGroupNexar::broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) {
    const at::Tensor &tensor = single(tensors, "broadcast");
    Builder build(*this, "broadcast", OpType::BROADCAST, opts.timeout);
    const at::Tensor memory = build.inPlace(tensor);
    const Elements as = movedAs(memory);
    build.start([&](nexar_request **request) {
        return nexar_ibroadcast(build.comm(), memory.data_ptr(), memory.numel() * as.per_element,
                                as.type, static_cast<int>(opts.rootRank), request);
    });
    build.outputs(tensors);
    return build.work(tensors);
}

WorkPtr ProcessGroupNexar::allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) {
    if (tensors.size() == 1 && tensors[0].is_sparse())
        return allreduce_sparse(tensors, opts);
    const at::Tensor &tensor = single(tensors, "all_reduce");
    const Reduction how = reducedAs(tensor, opts.reduceOp, "all_reduce");
    Builder build(*this, "all_reduce", OpType::ALLREDUCE, opts.timeout);
    const bool scaled = opts.reduceOp == c10d::ReduceOp::PREMUL_SUM;
    const at::Tensor memory = scaled ? build.target(tensor) : build.inPlace(tensor);
    const at::Tensor input =
        scaled ? build.keep(dense(premultiplied(tensor, opts.reduceOp))) : memory;
    build.start([&](nexar_request **request) {
        return nexar_iallreduce(build.comm(), scaled ? input.data_ptr() : NEXAR_IN_PLACE,
                                memory.data_ptr(), memory.numel() * how.elements.per_element,
                                how.elements.type, how.op, request);
    });
    build.outputs(tensors);
    return build.work(tensors);
}

WorkPtr ProcessGroupNexar::allreduce_coalesced(Tensors &tensors,
                                               const c10d::AllreduceCoalescedOptions &opts) {
    if (tensors.empty())
        C10_THROW_ERROR(ValueError, "all_reduce_coalesced: requires a non-empty tensor list");
    Builder build(*this, "all_reduce_coalesced", OpType::ALLREDUCE_COALESCED, opts.timeout);
    std::vector<nexar_tensor> regions;
    for (const at::Tensor &tensor : tensors) {
        checkTensor(tensor, "all_reduce_coalesced");
        if (tensor.scalar_type() != tensors[0].scalar_type())
            C10_THROW_ERROR(ValueError, "all_reduce_coalesced: tensors must all have the same type");
        const Reduction how = reducedAs(tensor, opts.reduceOp, "all_reduce_coalesced");
        const at::Tensor memory = build.inPlace(tensor);
        if (opts.reduceOp == c10d::ReduceOp::PREMUL_SUM)
            memory.copy_(premultiplied(memory, opts.reduceOp));
        regions.push_back(
            {memory.data_ptr(), static_cast<size_t>(memory.numel()) * how.elements.per_element});
    }
    const Reduction how = reducedAs(tensors[0], opts.reduceOp, "all_reduce_coalesced");
    build.start([&](nexar_request **request) {
        return nexar_iallreduce_bucketed(build.comm(), regions.data(), regions.size(),
                                         how.elements.type, how.op, request);
    });
    build.outputs(tensors);
    return build.work(tensors);
}

WorkPtr ProcessGroupNexar::reduce(Tensors &tensors, const c10d::ReduceOptions &opts) {
    const at::Tensor &tensor = single(tensors, "reduce");
    const Reduction how = reducedAs(tensor, opts.reduceOp, "reduce");
    const bool root = opts.rootRank == rank_;
    Builder build(*this, "reduce", OpType::REDUCE, opts.timeout);
    const at::Tensor input = build.keep(dense(premultiplied(tensor, opts.reduceOp)));
    const at::Tensor output = root ? build.target(tensor) : at::Tensor();
    const bool same = root && input.data_ptr() == output.data_ptr();
    build.start([&](nexar_request **request) {
        return nexar_ireduce(build.comm(), same ? NEXAR_IN_PLACE : input.data_ptr(),
                             root ? output.data_ptr() : nullptr,
                             input.numel() * how.elements.per_element, how.elements.type, how.op,
                             static_cast<int>(opts.rootRank), request);
    });
    build.outputs(tensors);
    return build.work(tensors);
}

WorkPtr ProcessGroupNexar::allreduceCompressed(at::Tensor tensor, const std::string &how,
                                               double ratio, std::optional<at::Tensor> residual) {
    static const std::map<std::string, nexar_compression> methods = {
        {"none", NEXAR_COMPRESS_NONE},       {"topk", NEXAR_COMPRESS_TOPK},
        {"randomk", NEXAR_COMPRESS_RANDOMK}, {"f16", NEXAR_COMPRESS_F16},
        {"bf16", NEXAR_COMPRESS_BF16},       {"int8", NEXAR_COMPRESS_INT8}};
    const auto method = methods.find(how);
    if (method == methods.end())
        C10_THROW_ERROR(ValueError, "allreduce_compressed: unknown method " + how +
                                        "; none, topk, randomk, f16, bf16 or int8");
    checkTensor(tensor, "allreduce_compressed");
    if (residual && (!residual->is_contiguous() || residual->numel() != tensor.numel() ||
                     residual->scalar_type() != tensor.scalar_type()))
        C10_THROW_ERROR(ValueError, "allreduce_compressed: residual must be contiguous, with the "
                                    "type and number of elements of the tensor");
    Builder build(*this, "allreduce_compressed", OpType::ALLREDUCE, c10d::kUnsetTimeout);
    const at::Tensor memory = build.inPlace(tensor);
    if (residual)
        build.keep(*residual);
    const Elements as = movedAs(memory);
    build.start([&](nexar_request **request) {
        return nexar_iallreduce_compressed(build.comm(), memory.data_ptr(), memory.numel(), as.type,
                                           NEXAR_AVG, method->second, ratio,
                                           residual ? residual->data_ptr() : nullptr, request);
    });
    build.outputs(Tensors{tensor});
    return build.work({tensor});
}

// ---- messages --------------------------------------------------------------------------------

WorkPtr ProcessGroupNexar::send(Tensors &tensors, int destination, int tag) {
    const at::Tensor &tensor = single(tensors, "send");
    Builder build(*this, "send", OpType::SEND, c10d::kUnsetTimeout);
    const at::Tensor memory = build.keep(dense(tensor));
    build.start([&](nexar_request **request) {
        return nexar_isend(build.comm(), memory.data_ptr(), memory.nbytes(), destination,
                           static_cast<uint32_t>(tag), request);
    });
    return build.work(tensors);
}

WorkPtr ProcessGroupNexar::receive(at::Tensor &tensor, int source, int tag, OpType type,
                                   const char *name) {
    Builder build(*this, name, type, c10d::kUnsetTimeout);
    const at::Tensor memory = build.inPlace(tensor);
    build.start([&](nexar_request **request) {
        return nexar_irecv(build.comm(), memory.data_ptr(), memory.nbytes(), source,
                           static_cast<uint32_t>(tag), request);
    });
    build.outputs(Tensors{tensor});
    return build.work({tensor});
}

WorkPtr ProcessGroupNexar::recv(Tensors &tensors, int source, int tag) {
    return receive(single(tensors, "recv"), source, tag, OpType::RECV, "recv");
}

WorkPtr ProcessGroupNexar::recvAnysource(Tensors &tensors, int tag) {
    return receive(single(tensors, "recvAnySource"), NEXAR_ANY_SOURCE, tag, OpType::RECVANYSOURCE,
                   "recvAnySource");
}

// ---- barriers --------------------------------------------------------------------------------

WorkPtr ProcessGroupNexar::barrier(const c10d::BarrierOptions &opts) {
    Builder build(*this, "barrier", OpType::BARRIER, opts.timeout);
    build.start([&](nexar_request **request) { return nexar_ibarrier(build.comm(), request); });
    return build.work();
}

namespace {

constexpr uint64_t monitoredTag = UINT64_C(1) << 61;

// A message of 0 bytes to or from one rank.
class Token {
  public:
    Token(nexar_comm *comm, int rank, uint64_t tag, bool sends) {
        check(sends ? nexar_isend(comm, nullptr, 0, rank, tag, &request_)
                    : nexar_irecv(comm, nullptr, 0, rank, tag, &request_),
              "monitored_barrier");
    }
    Token(Token &&other) noexcept : request_(std::exchange(other.request_, nullptr)) {}
    ~Token() {
        if (!request_)
            return;
        (void)nexar_cancel(request_);
        (void)nexar_wait(&request_, nullptr);
    }
    bool passed(Clock::time_point until) {
        const auto left =
            std::chrono::duration_cast<std::chrono::nanoseconds>(until - Clock::now()).count();
        return nexar_wait_for(&request_, left > 0 ? static_cast<uint64_t>(left) : 0, nullptr) ==
               NEXAR_OK;
    }

  private:
    nexar_request *request_ = nullptr;
};

} // namespace

void ProcessGroupNexar::monitorAsRoot(uint64_t tag, std::chrono::milliseconds limit, bool all) {
    const auto until = Clock::now() + limit;
    std::vector<Token> arrivals;
    for (int rank = 1; rank < size_; rank++)
        arrivals.emplace_back(comm(), rank, tag, false);
    std::string missing;
    for (int rank = 1; rank < size_; rank++) {
        if (!all && Clock::now() >= until) // rank 0 itself came too late to wait for this rank
            C10_THROW_ERROR(DistBackendError, c10::str("[Rank 0]: Rank 0 timed out in "
                                                       "monitoredBarrier after ",
                                                       limit.count(), " ms, waiting for rank ",
                                                       rank));
        if (arrivals[static_cast<size_t>(rank - 1)].passed(until))
            continue;
        missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
        if (!all)
            break;
    }
    if (!missing.empty())
        C10_THROW_ERROR(DistBackendError,
                        c10::str("[Rank 0]: ", all ? "Ranks " : "Rank ", missing,
                                 " failed to pass monitoredBarrier in ", limit.count(), " ms"));
    std::vector<Token> releases;
    for (int rank = 1; rank < size_; rank++)
        releases.emplace_back(comm(), rank, tag + 1, true);
    for (Token &release : releases)
        (void)release.passed(Clock::now() + limit);
}

void ProcessGroupNexar::monitorAsMember(uint64_t tag, std::chrono::milliseconds limit) {
    // Rank 0 waits for |limit| from its own call, so a member waits longer.
    const auto until = Clock::now() + 2 * limit;
    Token arrival(comm(), 0, tag, true), release(comm(), 0, tag + 1, false);
    if (!arrival.passed(until) || !release.passed(until))
        C10_THROW_ERROR(DistBackendError,
                        c10::str("Rank ", rank_,
                                 " successfully reached monitoredBarrier, but received errors while "
                                 "waiting for send/recv from rank 0. Please check rank 0 logs for "
                                 "faulty rank."));
}

void ProcessGroupNexar::monitoredBarrier(const c10d::BarrierOptions &opts, bool waitAllRanks) {
    const auto limit = opts.timeout == c10d::kUnsetTimeout ? timeout_ : opts.timeout;
    const uint64_t tag = monitoredTag + 2 * monitored_++;
    if (rank_ == 0)
        monitorAsRoot(tag, limit, waitAllRanks);
    else
        monitorAsMember(tag, limit);
}

} // namespace nexar
