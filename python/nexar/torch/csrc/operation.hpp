// operation.hpp - one operation in flight: its requests, what they need, and its outcome.
//
// Exactly one thread at a time waits for the requests of an operation, its owner: the thread in
// Work::wait(), or the completer.  Other threads wait for the outcome.
#ifndef NEXAR_TORCH_OPERATION_HPP
#define NEXAR_TORCH_OPERATION_HPP

#include "world.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace nexar {

using Clock = std::chrono::steady_clock;
using Future = c10::intrusive_ptr<c10::ivalue::Future>;

struct Operation {
    std::string name;                 // "allreduce", for errors
    std::shared_ptr<World> world;     // outlives the requests
    std::vector<nexar_request *> requests;
    std::vector<at::Tensor> buffers;  // belong to nexar until the requests have ended
    std::function<void()> finish;     // copies staged results to where they belong; may be empty
    std::function<void()> profiled;   // ends the profiler's record; may be empty
    c10::IValue result;               // the value of the future
    std::vector<at::Tensor> outputs;  // what Work::result() returns
    std::chrono::milliseconds timeout{0};
    Clock::time_point deadline;
    int source = -1;                  // rank of the sender, for receives

    std::mutex mutex;
    std::condition_variable changed;
    bool owned = false;   // a thread waits for the requests
    bool done = false;    // the outcome is known; a request may still be pending after a timeout
    bool drained = false; // every request has ended
    std::exception_ptr error;
    Future future;

    // All for the owner.
    std::exception_ptr first; // error of the request that failed first
    bool ended() const;       // every request has ended
    // Notes that the request at |place| has ended.
    void note(size_t place, nexar_err err, const nexar_status &status);
    // Waits until |until| for all requests.  False: the time is over.
    bool waitRequests(Clock::time_point until);
    // Makes the outcome known: runs |finish|, wakes waiting threads, completes the future.
    void conclude(std::exception_ptr failure);
    std::exception_ptr timeoutError(std::chrono::milliseconds limit) const;
    std::exception_ptr destroyedError() const;
};

// The thread that completes operations which no thread of the application waits for.
class Completer {
  public:
    explicit Completer(nexar_comm *world);
    ~Completer();
    // Takes over an operation that the caller owns.
    void add(std::shared_ptr<Operation> op);
    using Operations = std::vector<std::shared_ptr<Operation>>;
    // Ends the thread and returns the operations that are left, with requests pending.
    Operations stop();

  private:
    void run();
    bool takeIncoming(Operations &ops);
    void waitAny(Operations &ops);
    void settle(Operations &ops);
    void wake();

    nexar_comm *world_;
    Operations left_; // by the thread at its end
    std::mutex mutex_;
    std::condition_variable arrived_;
    std::deque<std::shared_ptr<Operation>> incoming_;
    nexar_request *wakeup_ = nullptr; // a receive from this rank that ends the wait
    bool wakeable_ = true; // until the world is revoked; an update makes another Completer
    bool waiting_ = false, stopping_ = false;
    std::thread thread_;
};

// What the application holds.
class NexarWork : public c10d::Work {
  public:
    NexarWork(std::shared_ptr<Operation> op, int rank, c10d::OpType type, uint64_t sequence,
              const char *profilingTitle, const std::optional<std::vector<at::Tensor>> &inputs);
    ~NexarWork() override;
    bool isCompleted() override;
    bool isSuccess() const override;
    std::exception_ptr exception() const override;
    int sourceRank() const override { return op_->source; }
    std::vector<at::Tensor> result() override { return op_->outputs; }
    void synchronize() override { wait(kNoTimeout); }
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    void abort() override;
    Future getFuture() override;
    uint64_t getSequencenumber() const override { return sequence_; }

  private:
    bool claim();
    void release();

    std::shared_ptr<Operation> op_;
    uint64_t sequence_;
};

} // namespace nexar
#endif
