#include "operation.hpp"

#include <ATen/ATen.h>
#include <c10/util/Logging.h>

namespace nexar {

namespace {

constexpr uint64_t wakeTag = UINT64_C(1) << 62; // tags of the application have 32 bits

uint64_t nanosecondsUntil(Clock::time_point when) {
    if (when == Clock::time_point::max())
        return UINT64_MAX;
    const auto left =
        std::chrono::duration_cast<std::chrono::nanoseconds>(when - Clock::now()).count();
    return left > 0 ? static_cast<uint64_t>(left) : 0;
}

} // namespace

bool Operation::ended() const {
    for (const nexar_request *request : requests)
        if (request)
            return false;
    return true;
}

void Operation::note(size_t place, nexar_err err, const nexar_status &status) {
    requests[place] = nullptr;
    if (err != NEXAR_OK && !first)
        first = exceptionOf(err, name);
    if (status.source >= 0)
        source = status.source;
}

bool Operation::waitRequests(Clock::time_point until) {
    for (size_t place = 0; place < requests.size(); place++) {
        if (!requests[place])
            continue;
        nexar_status status = {};
        status.source = -1;
        const nexar_err err = nexar_wait_for(&requests[place], nanosecondsUntil(until), &status);
        if (requests[place])
            return false;
        note(place, err, status);
    }
    return true;
}

void Operation::conclude(std::exception_ptr failure) {
    if (!failure && finish) {
        try {
            at::NoGradGuard guard;
            finish();
        } catch (...) {
            failure = std::current_exception();
        }
    }
    if (profiled) // before a thread that waits goes on, and ends the profiler
        std::exchange(profiled, nullptr)();
    Future waiting;
    // A tensor that Python has seen needs the GIL to end, and who holds the GIL may wait for
    // |mutex|.  So they end after it is released.
    std::vector<at::Tensor> endedBuffers;
    std::function<void()> endedFinish;
    {
        std::lock_guard<std::mutex> lock(mutex);
        endedFinish.swap(finish);
        if (ended()) {
            endedBuffers.swap(buffers);
            drained = true;
        }
        if (done)
            return;
        error = failure;
        done = true;
        waiting = future;
    }
    changed.notify_all();
    if (!waiting)
        return;
    if (failure)
        waiting->setErrorIfNeeded(failure);
    else
        waiting->markCompleted(result);
}

std::exception_ptr Operation::timeoutError(std::chrono::milliseconds limit) const {
    std::string text = name + ": Timed out after " + std::to_string(limit.count()) +
                       " ms: not every rank that it needs has called it; a stall report names them";
    return std::make_exception_ptr(
        c10::DistBackendError({name.c_str(), "nexar", 0}, std::move(text)));
}

std::exception_ptr Operation::destroyedError() const {
    return std::make_exception_ptr(c10::DistBackendError(
        {"", "nexar", 0}, name + ": the process group was destroyed before it completed"));
}

// ---- the completer ---------------------------------------------------------------------------

Completer::Completer(nexar_comm *world) : world_(world) {
    thread_ = std::thread([this] { run(); });
}

Completer::~Completer() { stop(); }

void Completer::add(std::shared_ptr<Operation> op) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (stopping_) {
        lock.unlock();
        op->conclude(op->destroyedError());
        return;
    }
    incoming_.push_back(std::move(op));
    wake();
}

// With mutex_ held.
void Completer::wake() {
    arrived_.notify_one();
    if (!waiting_)
        return;
    waiting_ = false;
    const nexar_err err = nexar_send(world_, nullptr, 0, nexar_rank(world_), wakeTag);
    if (err != NEXAR_OK && err != NEXAR_EREVOKED) // which ends the receive too
        LOG(WARNING) << "nexar: " << nexar_last_error();
}

Completer::Operations Completer::stop() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stopping_ = true;
        wake();
    }
    if (thread_.joinable())
        thread_.join();
    return std::move(left_);
}

// Waits for work.  False: the thread ends.
bool Completer::takeIncoming(Operations &ops) {
    std::unique_lock<std::mutex> lock(mutex_);
    arrived_.wait(lock, [&] { return stopping_ || !incoming_.empty() || !ops.empty(); });
    ops.insert(ops.end(), std::make_move_iterator(incoming_.begin()),
               std::make_move_iterator(incoming_.end()));
    incoming_.clear();
    return !stopping_;
}

void Completer::run() {
    Operations ops;
    while (takeIncoming(ops)) {
        waitAny(ops);
        settle(ops);
    }
    if (wakeup_) {
        (void)nexar_cancel(wakeup_);
        (void)nexar_wait(&wakeup_, nullptr);
    }
    left_ = std::move(ops);
}

// Waits until a request ends, an operation times out, or add() or stop() wakes it.
void Completer::waitAny(Operations &ops) {
    if (!wakeup_ && wakeable_ &&
        nexar_irecv(world_, nullptr, 0, nexar_rank(world_), wakeTag, &wakeup_) != NEXAR_OK)
        wakeup_ = nullptr;
    std::vector<nexar_request *> requests;
    std::vector<std::pair<size_t, size_t>> places;
    // Without |wakeup_| it polls.
    auto until = wakeup_ ? Clock::time_point::max() : Clock::now() + std::chrono::milliseconds(10);
    for (size_t o = 0; o < ops.size(); o++) {
        if (!ops[o]->done)
            until = std::min(until, ops[o]->deadline);
        for (size_t place = 0; place < ops[o]->requests.size(); place++)
            if (ops[o]->requests[place]) {
                requests.push_back(ops[o]->requests[place]);
                places.emplace_back(o, place);
            }
    }
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (stopping_ || !incoming_.empty() || requests.empty())
            return;
        waiting_ = wakeup_ != nullptr;
    }
    // Behind the others: of several that have ended nexar takes the first.
    requests.push_back(wakeup_);
    size_t index = 0;
    nexar_status status = {};
    status.source = -1;
    const nexar_err err = nexar_wait_any_for(requests.size(), requests.data(),
                                             nanosecondsUntil(until), &index, &status);
    if (index < places.size() && !requests[index]) // otherwise only the wait timed out
        ops[places[index].first]->note(places[index].second, err, status);
    if (index == places.size()) { // a receive on a world that was revoked ends at once
        wakeup_ = nullptr;
        wakeable_ = err == NEXAR_OK;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_ = false;
}

// Concludes the operations that have ended or timed out, and forgets those that have ended.
void Completer::settle(Operations &ops) {
    for (auto it = ops.begin(); it != ops.end();) {
        const std::shared_ptr<Operation> op = *it;
        if (op->ended()) {
            it = ops.erase(it);
            op->conclude(op->first);
        } else {
            if (!op->done && Clock::now() >= op->deadline)
                op->conclude(op->timeoutError(op->timeout));
            ++it;
        }
    }
}

// ---- what the application holds --------------------------------------------------------------

NexarWork::NexarWork(std::shared_ptr<Operation> op, int rank, c10d::OpType type, uint64_t sequence,
                     const char *profilingTitle,
                     const std::optional<std::vector<at::Tensor>> &inputs)
    : Work(rank, type, profilingTitle, inputs), op_(std::move(op)), sequence_(sequence) {
    op_->profiled = std::exchange(recordFunctionEndCallback_, nullptr);
    if (op_->done && op_->profiled)
        std::exchange(op_->profiled, nullptr)();
}

NexarWork::~NexarWork() {
    if (claim())
        op_->world->completer().add(op_);
}

// Makes the calling thread the owner, unless another one is or every request has ended.  The
// requests of a world that was closed do not exist any more.
bool NexarWork::claim() {
    const bool usable = op_->world->usable();
    {
        std::lock_guard<std::mutex> lock(op_->mutex);
        if (op_->owned || op_->drained)
            return false;
        op_->owned = true;
    }
    if (!usable)
        op_->conclude(op_->destroyedError());
    return usable;
}

bool NexarWork::isCompleted() {
    if (claim()) {
        if (op_->waitRequests(Clock::now()))
            op_->conclude(op_->first);
        release();
    }
    std::lock_guard<std::mutex> lock(op_->mutex);
    return op_->done;
}

// Gives up the ownership, to the completer if somebody has asked for the future meanwhile.
void NexarWork::release() {
    bool watched = false;
    {
        std::lock_guard<std::mutex> lock(op_->mutex);
        watched = op_->future && !op_->drained;
        op_->owned = watched;
    }
    op_->changed.notify_all();
    if (watched)
        op_->world->completer().add(op_);
}

bool NexarWork::isSuccess() const {
    std::lock_guard<std::mutex> lock(op_->mutex);
    return op_->done && !op_->error;
}

std::exception_ptr NexarWork::exception() const {
    std::lock_guard<std::mutex> lock(op_->mutex);
    return op_->error;
}

bool NexarWork::wait(std::chrono::milliseconds timeout) {
    const bool own = timeout != kNoTimeout && timeout != c10d::kUnsetTimeout;
    const auto limit = own ? timeout : op_->timeout;
    const auto until = own ? Clock::now() + timeout : op_->deadline;
    for (;;) {
        if (claim()) {
            const bool ended = op_->waitRequests(until);
            op_->conclude(ended ? op_->first : op_->timeoutError(limit));
            if (!ended) // keeps the buffers until the requests have ended
                op_->world->completer().add(op_);
        }
        std::unique_lock<std::mutex> lock(op_->mutex);
        const auto decided = [this] { return op_->done || !op_->owned; };
        if (until == Clock::time_point::max())
            op_->changed.wait(lock, decided);
        else if (!op_->changed.wait_until(lock, until, decided))
            std::rethrow_exception(op_->timeoutError(limit));
        if (op_->done)
            break;
    }
    if (op_->error)
        std::rethrow_exception(op_->error);
    return true;
}

void NexarWork::abort() {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "nexar cannot abort one operation; abort the process group with group.abort()");
}

Future NexarWork::getFuture() {
    bool mine = false, done = false;
    std::exception_ptr error;
    {
        std::lock_guard<std::mutex> lock(op_->mutex);
        if (op_->future)
            return op_->future;
        op_->future = c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()));
        done = op_->done;
        error = op_->error;
        if (!op_->owned && !op_->drained)
            op_->owned = mine = true;
    }
    Future future = op_->future;
    if (done && error)
        future->setErrorIfNeeded(error);
    else if (done)
        future->markCompleted(op_->result);
    if (mine)
        op_->world->completer().add(op_);
    return future;
}

} // namespace nexar
