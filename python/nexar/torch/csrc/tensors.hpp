// tensors.hpp - torch's tensors, types and reductions as nexar's.
#ifndef NEXAR_TORCH_TENSORS_HPP
#define NEXAR_TORCH_TENSORS_HPP

#include <nexar.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <string>
#include <vector>

namespace nexar {

// Elements as nexar counts them: a complex number is two.
struct Elements {
    nexar_dtype type;
    size_t per_element; // how many of |type| make one element of the tensor
};

// For calls that move data; every dtype is accepted.
Elements movedAs(const at::Tensor &tensor);

// For calls that reduce: the type and the operation that give torch's result.
struct Reduction {
    Elements elements;
    nexar_op op;
};
Reduction reducedAs(const at::Tensor &tensor, const c10d::ReduceOp &op, const char *what);

// The tensor's memory, if it is dense and in order, otherwise a copy that is.
at::Tensor dense(const at::Tensor &tensor);

// The factor of PREMUL_SUM applied to a copy; other operations return |tensor|.
at::Tensor premultiplied(const at::Tensor &tensor, const c10d::ReduceOp &op);

// Throws ValueError unless |tensor| is on the CPU and strided.
void checkTensor(const at::Tensor &tensor, const char *what);
// Throws ValueError unless |tensors| has one tensor, which is returned.
at::Tensor &single(std::vector<at::Tensor> &tensors, const char *what);

// One flat tensor for the tensors of a list: the memory of the list itself where its tensors
// follow each other, otherwise new memory.
class Flat {
  public:
    Flat(const std::vector<at::Tensor> &list, const char *what);
    void load();  // from the list
    void store(); // to the list
    char *data() const { return static_cast<char *>(memory_.data_ptr()); }
    const at::Tensor &tensor() const { return memory_; }
    const std::vector<at::Tensor> &list() const { return list_; }
    const std::vector<size_t> &counts() const { return counts_; } // in elements of the tensors
    bool even() const;                                           // all counts are equal
    bool alias() const { return alias_; }

  private:
    std::vector<at::Tensor> list_;
    at::Tensor memory_;
    std::vector<size_t> counts_;
    bool alias_ = false;
};

} // namespace nexar
#endif
