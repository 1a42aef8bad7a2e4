#include "tensors.hpp"

#include <ATen/ATen.h>

#include <optional>

namespace nexar {

namespace {

std::optional<Elements> numberAs(at::ScalarType type) {
    switch (type) {
    case at::kFloat: return Elements{NEXAR_F32, 1};
    case at::kDouble: return Elements{NEXAR_F64, 1};
    case at::kHalf: return Elements{NEXAR_F16, 1};
    case at::kBFloat16: return Elements{NEXAR_BF16, 1};
    case at::kChar: return Elements{NEXAR_I8, 1};
    case at::kShort: return Elements{NEXAR_I16, 1};
    case at::kInt: return Elements{NEXAR_I32, 1};
    case at::kLong: return Elements{NEXAR_I64, 1};
    case at::kByte:
    case at::kBool: return Elements{NEXAR_U8, 1};
    case at::kUInt16: return Elements{NEXAR_U16, 1};
    case at::kUInt32: return Elements{NEXAR_U32, 1};
    case at::kUInt64: return Elements{NEXAR_U64, 1};
    case at::kComplexHalf: return Elements{NEXAR_F16, 2};
    case at::kComplexFloat: return Elements{NEXAR_F32, 2};
    case at::kComplexDouble: return Elements{NEXAR_F64, 2};
    default: return std::nullopt;
    }
}

std::optional<nexar_op> operation(c10d::ReduceOp::RedOpType op) {
    switch (op) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::PREMUL_SUM: return NEXAR_SUM;
    case c10d::ReduceOp::AVG: return NEXAR_AVG;
    case c10d::ReduceOp::PRODUCT: return NEXAR_PROD;
    case c10d::ReduceOp::MIN: return NEXAR_MIN;
    case c10d::ReduceOp::MAX: return NEXAR_MAX;
    case c10d::ReduceOp::BAND: return NEXAR_BAND;
    case c10d::ReduceOp::BOR: return NEXAR_BOR;
    case c10d::ReduceOp::BXOR: return NEXAR_BXOR;
    default: return std::nullopt;
    }
}

// A bool is 0 or 1, also after it was reduced.
nexar_op operationOnBools(nexar_op op, const char *what) {
    switch (op) {
    case NEXAR_SUM:
    case NEXAR_MAX:
    case NEXAR_BOR: return NEXAR_MAX;
    case NEXAR_PROD:
    case NEXAR_MIN:
    case NEXAR_BAND: return NEXAR_MIN;
    case NEXAR_BXOR: return NEXAR_BXOR;
    default: C10_THROW_ERROR(ValueError, std::string(what) + ": bool tensors have no average");
    }
}

} // namespace

Elements movedAs(const at::Tensor &tensor) {
    if (const auto elements = numberAs(tensor.scalar_type()))
        return *elements;
    return {NEXAR_U8, static_cast<size_t>(tensor.element_size())};
}

Reduction reducedAs(const at::Tensor &tensor, const c10d::ReduceOp &op, const char *what) {
    const at::ScalarType type = tensor.scalar_type();
    const auto elements = numberAs(type);
    if (!elements)
        C10_THROW_ERROR(ValueError, c10::str(what, ": tensors of type ", type,
                                             " cannot be reduced; convert them first"));
    const auto known = operation(op);
    if (!known)
        C10_THROW_ERROR(ValueError, std::string(what) + ": unknown reduce operation");
    nexar_op reduce = *known;
    if (type == at::kBool)
        reduce = operationOnBools(reduce, what);
    const bool bitwise = reduce == NEXAR_BAND || reduce == NEXAR_BOR || reduce == NEXAR_BXOR;
    if (bitwise && (tensor.is_floating_point() || tensor.is_complex()))
        C10_THROW_ERROR(ValueError,
                        std::string(what) + ": Cannot use " + nexar_op_name(reduce) +
                            " with non-integral dtype; bitwise operations need integers");
    if (tensor.is_complex() && reduce != NEXAR_SUM && reduce != NEXAR_AVG)
        C10_THROW_ERROR(ValueError, std::string(what) +
                                        ": complex tensors can be summed and averaged, not " +
                                        nexar_op_name(reduce));
    return {*elements, reduce};
}

at::Tensor dense(const at::Tensor &tensor) {
    return tensor.resolve_conj().resolve_neg().contiguous();
}

at::Tensor premultiplied(const at::Tensor &tensor, const c10d::ReduceOp &op) {
    if (op != c10d::ReduceOp::PREMUL_SUM)
        return tensor;
    const auto *factor =
        dynamic_cast<const c10d::NCCLPreMulSumSupplement *>(op.supplement_.get());
    TORCH_CHECK(factor, "nexar: PREMUL_SUM without a factor");
    at::NoGradGuard guard;
    return factor->tensor_factor.defined() ? tensor.mul(factor->tensor_factor)
                                           : tensor.mul(factor->double_factor);
}

void checkTensor(const at::Tensor &tensor, const char *what) {
    if (!tensor.device().is_cpu())
        C10_THROW_ERROR(ValueError, c10::str(what, ": tensor is on ", tensor.device(),
                                             "; this process group handles CPU tensors"));
    if (tensor.layout() != at::kStrided)
        C10_THROW_ERROR(ValueError,
                        c10::str(what, ": tensor is ", tensor.layout(), "; it must be dense"));
}

at::Tensor &single(std::vector<at::Tensor> &tensors, const char *what) {
    if (tensors.size() != 1)
        C10_THROW_ERROR(ValueError, c10::str(what, ": takes one tensor, got ", tensors.size()));
    checkTensor(tensors[0], what);
    return tensors[0];
}

Flat::Flat(const std::vector<at::Tensor> &list, const char *what) : list_(list) {
    if (list.empty())
        C10_THROW_ERROR(ValueError, std::string(what) + ": requires a non-empty list of tensors");
    int64_t total = 0;
    alias_ = true;
    for (const at::Tensor &tensor : list) {
        checkTensor(tensor, what);
        if (tensor.scalar_type() != list[0].scalar_type())
            C10_THROW_ERROR(ValueError, c10::str(what, ": invalid tensor type: ",
                                                 tensor.scalar_type(), " in a list of ",
                                                 list[0].scalar_type()));
        alias_ = alias_ && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg() &&
                 static_cast<const char *>(tensor.data_ptr()) ==
                     static_cast<const char *>(list[0].data_ptr()) +
                         total * static_cast<int64_t>(tensor.element_size());
        counts_.push_back(static_cast<size_t>(tensor.numel()));
        total += tensor.numel();
    }
    memory_ = alias_ ? list[0] : at::empty({total}, list[0].options().requires_grad(false));
}

bool Flat::even() const {
    for (const size_t count : counts_)
        if (count != counts_[0])
            return false;
    return true;
}

void Flat::load() {
    if (alias_)
        return;
    at::NoGradGuard guard;
    int64_t at = 0;
    for (const at::Tensor &tensor : list_) {
        memory_.narrow(0, at, tensor.numel()).copy_(tensor.reshape({-1}));
        at += tensor.numel();
    }
}

void Flat::store() {
    if (alias_)
        return;
    at::NoGradGuard guard;
    int64_t at = 0;
    for (at::Tensor &tensor : list_) {
        tensor.copy_(memory_.narrow(0, at, tensor.numel()).view(tensor.sizes()));
        at += tensor.numel();
    }
}

} // namespace nexar
