// process_group_blocks.cpp - the collectives that move one block per rank, and sparse tensors.
#include "builder.hpp"

#include <ATen/ATen.h>

namespace nexar {

using c10d::OpType;

namespace {

std::vector<size_t> scaled(const std::vector<size_t> &counts, size_t by) {
    std::vector<size_t> result;
    for (const size_t count : counts)
        result.push_back(count * by);
    return result;
}

bool overlap(const at::Tensor &a, const at::Tensor &b) {
    const auto *left = static_cast<const char *>(a.data_ptr());
    const auto *right = static_cast<const char *>(b.data_ptr());
    return a.nbytes() && b.nbytes() && left < right + b.nbytes() && right < left + a.nbytes();
}

void checkSameType(const at::Tensor &a, const at::Tensor &b, const char *what) {
    if (a.scalar_type() != b.scalar_type())
        C10_THROW_ERROR(ValueError, c10::str(what, ": invalid tensor type: ", a.scalar_type(),
                                             " and ", b.scalar_type()));
}

void checkLists(size_t lists, size_t blocks, int size, const char *what) {
    if (lists != 1 || blocks != static_cast<size_t>(size))
        C10_THROW_ERROR(ValueError, c10::str(what, ": needs one list of ", size,
                                             " tensors, one per rank; got ", lists, " of ", blocks));
}

// The block of this rank, or NEXAR_IN_PLACE where it is already in |output|.
const void *blockOf(at::Tensor &input, const at::Tensor &output, size_t offset) {
    if (input.data_ptr() == static_cast<char *>(output.data_ptr()) + offset)
        return NEXAR_IN_PLACE;
    if (overlap(input, output))
        input = input.clone();
    return input.data_ptr();
}

} // namespace

// ---- allgather -------------------------------------------------------------------------------

void ProcessGroupNexar::startAllgather(Builder &build, const at::Tensor &output,
                                       const at::Tensor &input) {
    checkTensor(input, "all_gather_into_tensor");
    checkTensor(output, "all_gather_into_tensor");
    checkSameType(input, output, "all_gather_into_tensor");
    if (output.numel() != input.numel() * size_)
        C10_THROW_ERROR(ValueError,
                        c10::str("all_gather_into_tensor: output tensor size must be equal to "
                                 "world_size times input tensor size: ",
                                 output.numel(), " is not ", size_, " x ", input.numel()));
    const at::Tensor memory = build.target(output);
    at::Tensor block = dense(input);
    const void *from = blockOf(block, memory, rank_ * block.nbytes());
    build.keep(block);
    const Elements as = movedAs(block);
    build.start([&](nexar_request **request) {
        return nexar_iallgather(build.comm(), from, memory.data_ptr(),
                                block.numel() * as.per_element, as.type, request);
    });
}

void ProcessGroupNexar::startAllgatherList(Builder &build, const Tensors &outputs,
                                           const at::Tensor &input) {
    checkLists(1, outputs.size(), size_, "all_gather");
    checkTensor(input, "all_gather");
    const auto flat = build.keep(std::make_shared<Flat>(outputs, "all_gather"));
    checkSameType(input, outputs[0], "all_gather");
    const size_t mine = flat->counts()[static_cast<size_t>(rank_)];
    if (static_cast<size_t>(input.numel()) != mine)
        C10_THROW_ERROR(ValueError,
                        c10::str("all_gather: invalid tensor size: this rank has ", input.numel(),
                                 " elements, its place in the output list has ", mine));
    at::Tensor block = dense(input).clone(); // the list may contain the input
    build.keep(block);
    const Elements as = movedAs(block);
    build.start([&](nexar_request **request) {
        if (flat->even())
            return nexar_iallgather(build.comm(), block.data_ptr(), flat->data(),
                                    mine * as.per_element, as.type, request);
        return nexar_iallgatherv(build.comm(), block.data_ptr(), mine * as.per_element,
                                 flat->data(), scaled(flat->counts(), as.per_element).data(),
                                 nullptr, as.type, request);
    });
    build.atEnd([flat] { flat->store(); });
}

WorkPtr ProcessGroupNexar::allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                                     const c10d::AllgatherOptions &opts) {
    const at::Tensor &input = single(inputs, "all_gather");
    checkLists(outputs.size(), outputs.empty() ? 0 : outputs[0].size(), size_, "all_gather");
    Builder build(*this, "all_gather", OpType::ALLGATHER, opts.timeout);
    startAllgatherList(build, outputs[0], input);
    build.outputs(outputs);
    return build.work(inputs);
}

WorkPtr ProcessGroupNexar::_allgather_base(at::Tensor &output, at::Tensor &input,
                                           const c10d::AllgatherOptions &opts) {
    Builder build(*this, "_all_gather_base", OpType::_ALLGATHER_BASE, opts.timeout);
    startAllgather(build, output, input);
    build.outputs(Tensors{output});
    return build.work({input});
}

WorkPtr ProcessGroupNexar::allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                               const c10d::AllgatherOptions &opts) {
    checkLists(1, outputs.size(), size_, "all_gather_coalesced");
    Builder build(*this, "all_gather", OpType::ALLGATHER_COALESCED, opts.timeout);
    for (size_t i = 0; i < inputs.size(); i++) {
        Tensors list;
        for (const Tensors &of_rank : outputs) {
            if (of_rank.size() != inputs.size())
                C10_THROW_ERROR(ValueError, "all_gather_coalesced: invalid output size");
            list.push_back(of_rank[i]);
        }
        startAllgatherList(build, list, inputs[i]);
    }
    build.outputs(outputs);
    return build.work(inputs);
}

WorkPtr ProcessGroupNexar::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                           const c10d::AllgatherOptions &opts) {
    if (outputs.size() != inputs.size())
        C10_THROW_ERROR(ValueError, "all_gather_into_tensor_coalesced: lists differ in length");
    Builder build(*this, "_all_gather_base", OpType::COALESCED, opts.timeout);
    for (size_t i = 0; i < inputs.size(); i++)
        startAllgather(build, outputs[i], inputs[i]);
    build.outputs(outputs);
    return build.work(inputs);
}

// ---- gather and scatter ----------------------------------------------------------------------

WorkPtr ProcessGroupNexar::gather(std::vector<Tensors> &outputs, Tensors &inputs,
                                  const c10d::GatherOptions &opts) {
    const at::Tensor &input = single(inputs, "gather");
    const bool root = opts.rootRank == rank_;
    if (root)
        checkLists(outputs.size(), outputs.empty() ? 0 : outputs[0].size(), size_, "gather");
    else if (!outputs.empty())
        C10_THROW_ERROR(ValueError, "gather: requires empty output on non-root");
    Builder build(*this, "gather", OpType::GATHER, opts.timeout);
    const at::Tensor block = build.keep(dense(input).clone());
    const Elements as = movedAs(block);
    std::shared_ptr<Flat> flat;
    if (root) {
        flat = build.keep(std::make_shared<Flat>(outputs[0], "gather"));
        checkSameType(input, outputs[0][0], "gather");
        if (!flat->even() || flat->counts()[0] != static_cast<size_t>(input.numel()))
            C10_THROW_ERROR(ValueError, "gather: invalid tensor size: the tensors of the output "
                                        "list must have the size of the input");
        build.atEnd([flat] { flat->store(); });
    }
    build.start([&](nexar_request **request) {
        return nexar_igather(build.comm(), block.data_ptr(), root ? flat->data() : nullptr,
                             block.numel() * as.per_element, as.type,
                             static_cast<int>(opts.rootRank), request);
    });
    build.outputs(outputs);
    return build.work(inputs);
}

WorkPtr ProcessGroupNexar::scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                   const c10d::ScatterOptions &opts) {
    const at::Tensor &output = single(outputs, "scatter");
    const bool root = opts.rootRank == rank_;
    if (root)
        checkLists(inputs.size(), inputs.empty() ? 0 : inputs[0].size(), size_, "scatter");
    else if (!inputs.empty())
        C10_THROW_ERROR(ValueError, "scatter: requires empty input on non-root");
    Builder build(*this, "scatter", OpType::SCATTER, opts.timeout);
    const at::Tensor memory = build.target(output);
    const Elements as = movedAs(memory);
    at::Tensor blocks;
    if (root) {
        Flat flat(inputs[0], "scatter");
        checkSameType(output, inputs[0][0], "scatter");
        if (!flat.even() || flat.counts()[0] != static_cast<size_t>(output.numel()))
            C10_THROW_ERROR(ValueError, "scatter: invalid tensor size: the tensors of the input "
                                        "list must have the size of the output");
        Tensors rows;
        for (const at::Tensor &tensor : inputs[0])
            rows.push_back(tensor.reshape({-1}));
        at::NoGradGuard guard;
        blocks = build.keep(dense(at::cat(rows)));
    }
    build.start([&](nexar_request **request) {
        return nexar_iscatter(build.comm(), root ? blocks.data_ptr() : nullptr, memory.data_ptr(),
                              memory.numel() * as.per_element, as.type,
                              static_cast<int>(opts.rootRank), request);
    });
    build.outputs(outputs);
    return build.work(root ? inputs[0] : Tensors{});
}

// ---- reduce_scatter --------------------------------------------------------------------------

void ProcessGroupNexar::startReduceScatter(Builder &build, const at::Tensor &output,
                                           const at::Tensor &input, const c10d::ReduceOp &op) {
    checkTensor(input, "reduce_scatter_tensor");
    checkTensor(output, "reduce_scatter_tensor");
    checkSameType(input, output, "reduce_scatter_tensor");
    if (input.numel() != output.numel() * size_)
        C10_THROW_ERROR(ValueError,
                        c10::str("reduce_scatter_tensor: input tensor must be the same size as "
                                 "output size times world size: ",
                                 input.numel(), " is not ", size_, " x ", output.numel()));
    const Reduction how = reducedAs(input, op, "reduce_scatter_tensor");
    const at::Tensor memory = build.target(output);
    at::Tensor blocks = dense(premultiplied(input, op));
    if (overlap(blocks, memory))
        blocks = blocks.clone();
    build.keep(blocks);
    build.start([&](nexar_request **request) {
        return nexar_ireduce_scatter(build.comm(), blocks.data_ptr(), memory.data_ptr(),
                                     memory.numel() * how.elements.per_element, how.elements.type,
                                     how.op, request);
    });
}

WorkPtr ProcessGroupNexar::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                          const c10d::ReduceScatterOptions &opts) {
    const at::Tensor &output = single(outputs, "reduce_scatter");
    checkLists(inputs.size(), inputs.empty() ? 0 : inputs[0].size(), size_, "reduce_scatter");
    const Flat shape(inputs[0], "reduce_scatter");
    checkSameType(output, inputs[0][0], "reduce_scatter");
    if (shape.counts()[static_cast<size_t>(rank_)] != static_cast<size_t>(output.numel()))
        C10_THROW_ERROR(ValueError, "reduce_scatter: invalid tensor size: the output must have the "
                                    "size of the input tensor of this rank");
    const Reduction how = reducedAs(output, opts.reduceOp, "reduce_scatter");
    Builder build(*this, "reduce_scatter", OpType::REDUCE_SCATTER, opts.timeout);
    const at::Tensor memory = build.target(output);
    Tensors rows;
    for (const at::Tensor &tensor : inputs[0])
        rows.push_back(tensor.reshape({-1}));
    at::NoGradGuard guard;
    const at::Tensor blocks = build.keep(dense(premultiplied(at::cat(rows), opts.reduceOp)));
    const std::vector<size_t> counts = scaled(shape.counts(), how.elements.per_element);
    build.start([&](nexar_request **request) {
        if (shape.even())
            return nexar_ireduce_scatter(build.comm(), blocks.data_ptr(), memory.data_ptr(),
                                         counts[0], how.elements.type, how.op, request);
        return nexar_ireduce_scatterv(build.comm(), blocks.data_ptr(), memory.data_ptr(),
                                      counts.data(), how.elements.type, how.op, request);
    });
    build.outputs(outputs);
    return build.work(inputs[0]);
}

WorkPtr ProcessGroupNexar::_reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                                const c10d::ReduceScatterOptions &opts) {
    Builder build(*this, "_reduce_scatter_base", OpType::_REDUCE_SCATTER_BASE, opts.timeout);
    startReduceScatter(build, output, input, opts.reduceOp);
    build.outputs(Tensors{output});
    return build.work({input});
}

WorkPtr
ProcessGroupNexar::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                   const c10d::ReduceScatterOptions &opts) {
    if (outputs.size() != inputs.size())
        C10_THROW_ERROR(ValueError, "reduce_scatter_tensor_coalesced: lists differ in length");
    Builder build(*this, "_reduce_scatter_base", OpType::COALESCED, opts.timeout);
    for (size_t i = 0; i < inputs.size(); i++)
        startReduceScatter(build, outputs[i], inputs[i], opts.reduceOp);
    build.outputs(outputs);
    return build.work(inputs);
}

// ---- alltoall --------------------------------------------------------------------------------

namespace {

// The elements of each block of |tensor|: rows of its first dimension, by |splits| or evenly.
std::vector<size_t> blocksOf(const at::Tensor &tensor, const std::vector<int64_t> &splits,
                             int size, size_t per_element) {
    const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 1;
    const int64_t row = rows > 0 ? tensor.numel() / rows : 0;
    if (splits.empty() && rows % size != 0)
        C10_THROW_ERROR(ValueError, "all_to_all_single: Tensor's dim 0 does not divide equally "
                                    "across group size");
    if (!splits.empty() && splits.size() != static_cast<size_t>(size))
        C10_THROW_ERROR(ValueError, "all_to_all_single: Number of tensor splits not equal to group "
                                    "size");
    std::vector<size_t> counts;
    int64_t sum = 0;
    for (int i = 0; i < size; i++) {
        const int64_t count = splits.empty() ? rows / size : splits[static_cast<size_t>(i)];
        sum += count;
        counts.push_back(static_cast<size_t>(count * row) * per_element);
    }
    if (sum != rows)
        C10_THROW_ERROR(ValueError, "all_to_all_single: Split sizes doesn't match total dim 0 size");
    return counts;
}

} // namespace

WorkPtr ProcessGroupNexar::alltoall_base(at::Tensor &output, at::Tensor &input,
                                         std::vector<int64_t> &outputSplits,
                                         std::vector<int64_t> &inputSplits,
                                         const c10d::AllToAllOptions &opts) {
    checkTensor(input, "all_to_all_single");
    checkTensor(output, "all_to_all_single");
    checkSameType(input, output, "all_to_all_single");
    Builder build(*this, "all_to_all", OpType::ALLTOALL_BASE, opts.timeout);
    const at::Tensor memory = build.target(output);
    at::Tensor blocks = dense(input);
    if (overlap(blocks, memory))
        blocks = blocks.clone();
    build.keep(blocks);
    const Elements as = movedAs(blocks);
    const auto sent = blocksOf(input, inputSplits, size_, as.per_element);
    const auto received = blocksOf(output, outputSplits, size_, as.per_element);
    build.start([&](nexar_request **request) {
        if (inputSplits.empty() && outputSplits.empty() && sent == received)
            return nexar_ialltoall(build.comm(), blocks.data_ptr(), memory.data_ptr(), sent[0],
                                   as.type, request);
        return nexar_ialltoallv(build.comm(), blocks.data_ptr(), sent.data(), nullptr,
                                memory.data_ptr(), received.data(), nullptr, as.type, request);
    });
    build.outputs(Tensors{output});
    return build.work({input});
}

WorkPtr ProcessGroupNexar::alltoall(Tensors &outputs, Tensors &inputs,
                                    const c10d::AllToAllOptions &opts) {
    checkLists(1, outputs.size(), size_, "all_to_all");
    checkLists(1, inputs.size(), size_, "all_to_all");
    Builder build(*this, "all_to_all", OpType::ALLTOALL, opts.timeout);
    const auto to = build.keep(std::make_shared<Flat>(outputs, "all_to_all"));
    const Flat from(inputs, "all_to_all");
    checkSameType(inputs[0], outputs[0], "all_to_all");
    Tensors rows;
    for (const at::Tensor &tensor : inputs)
        rows.push_back(tensor.reshape({-1}));
    at::NoGradGuard guard;
    const at::Tensor blocks = build.keep(dense(at::cat(rows)));
    const Elements as = movedAs(blocks);
    build.start([&](nexar_request **request) {
        return nexar_ialltoallv(build.comm(), blocks.data_ptr(),
                                scaled(from.counts(), as.per_element).data(), nullptr, to->data(),
                                scaled(to->counts(), as.per_element).data(), nullptr, as.type,
                                request);
    });
    build.atEnd([to] { to->store(); });
    build.outputs(outputs);
    return build.work(inputs);
}

// ---- sparse tensors --------------------------------------------------------------------------

// The rows of all ranks, where rank i has counts[i] of them.
at::Tensor ProcessGroupNexar::gatherRows(const at::Tensor &rows, const std::vector<int64_t> &counts,
                                         std::chrono::milliseconds timeout) {
    Tensors blocks;
    for (const int64_t count : counts) {
        auto sizes = rows.sizes().vec();
        sizes[0] = count;
        blocks.push_back(at::empty(sizes, rows.options()));
    }
    std::vector<Tensors> lists{blocks};
    Tensors inputs{rows};
    c10d::AllgatherOptions opts;
    opts.timeout = timeout;
    allgather(lists, inputs, opts)->wait();
    return at::cat(blocks);
}

// Gathers the coordinates and values of all ranks; the sum is computed where it is needed.
WorkPtr ProcessGroupNexar::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &opts) {
    if (tensors.size() != 1 || !tensors[0].is_sparse())
        C10_THROW_ERROR(ValueError, "all_reduce: takes one sparse tensor in COO format");
    if (opts.reduceOp != c10d::ReduceOp::SUM)
        C10_THROW_ERROR(ValueError, "all_reduce: sparse tensors can only be summed: unsupported "
                                    "reduction operation (allreduce of sparse tensors only works "
                                    "with ReduceOp.SUM)");
    at::NoGradGuard guard;
    const at::Tensor input = tensors[0].coalesce();
    const at::Tensor mine = at::full({1}, input._nnz(), at::kLong);
    const at::Tensor all = gatherRows(mine, std::vector<int64_t>(size_, 1), opts.timeout);
    const std::vector<int64_t> counts(all.data_ptr<int64_t>(), all.data_ptr<int64_t>() + size_);
    const at::Tensor indices =
        gatherRows(input.indices().t().contiguous(), counts, opts.timeout);
    const at::Tensor values = gatherRows(input.values().contiguous(), counts, opts.timeout);
    tensors[0].copy_(
        at::sparse_coo_tensor(indices.t(), values, input.sizes(), input.options()).coalesce());
    Builder build(*this, "all_reduce", OpType::_ALLREDUCE_SPARSE, opts.timeout);
    build.outputs(tensors);
    return build.work();
}

} // namespace nexar
