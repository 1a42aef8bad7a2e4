#include <Python.h>

#include "world.hpp"
#include "operation.hpp"

#include <c10/util/Logging.h>
#include <unistd.h>

namespace nexar {

std::exception_ptr exceptionOf(nexar_err err, const std::string &what) {
    std::string text = nexar_last_error();
    if (text.empty())
        text = what + ": " + nexar_strerror(err);
    const c10::SourceLocation here = {what.c_str(), "nexar", 0};
    if (err == NEXAR_ECONNECT || err == NEXAR_EAUTH || err == NEXAR_EPROTO)
        return std::make_exception_ptr(c10::DistNetworkError(here, text));
    return std::make_exception_ptr(c10::DistBackendError(here, text));
}

void check(nexar_err err, const char *what) {
    if (err != NEXAR_OK)
        std::rethrow_exception(exceptionOf(err, what));
}

namespace {

using Config = std::unique_ptr<nexar_config, void (*)(nexar_config *)>;

Config configOf(const Settings &settings) {
    nexar_config *raw = nullptr;
    check(nexar_config_create(&raw), "config");
    Config config(raw, nexar_config_free);
    for (const auto &[name, value] : settings)
        check(nexar_config_set(raw, name.c_str(), value.c_str()), "config");
    return config;
}

// Releases the GIL, if this thread holds it: futures that end may run functions of Python.
class GilReleased {
  public:
    GilReleased() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
    ~GilReleased() {
        if (state_)
            PyEval_RestoreThread(state_);
    }
    GilReleased(const GilReleased &) = delete;
    GilReleased &operator=(const GilReleased &) = delete;

  private:
    PyThreadState *state_;
};

// Stall reports and warnings of nexar appear in torch's log.
void logLine(nexar_log_level level, const char *line, void *) {
    switch (level) {
    case NEXAR_LOG_ERROR: LOG(ERROR) << line; break;
    case NEXAR_LOG_WARN: LOG(WARNING) << line; break;
    default: LOG(INFO) << line;
    }
}

} // namespace

Seed::Seed(const Settings &settings) {
    check(nexar_seed_start(configOf(settings).get(), &seed_), "seed");
}

Seed::~Seed() { stop(); }

void Seed::stop() {
    nexar_seed_stop(seed_);
    seed_ = nullptr;
}

std::string Seed::joinString() const {
    char text[1024];
    check(nexar_seed_join_string(seed_, text, sizeof text), "seed");
    return text;
}

World::World(const Settings &settings) : owner_(getpid()) {
    static std::once_flag logged;
    std::call_once(logged, [] { nexar_set_log(logLine, nullptr); });
    check(nexar_init(configOf(settings).get(), &world_), "init_process_group");
    completer_ = std::make_unique<Completer>(world_);
}

World::~World() {
    if (usable())
        close();
    else
        abandon();
}

bool World::usable() const { return world_ && owner_ == getpid(); }

nexar_comm *World::comm() const {
    if (!world_)
        C10_THROW_ERROR(DistBackendError, "nexar: the process group was destroyed");
    if (owner_ != getpid())
        C10_THROW_ERROR(DistBackendError, "nexar: a process group cannot be used in a forked "
                                          "child; start processes with spawn");
    return world_;
}

void World::close() {
    if (!usable())
        return;
    const GilReleased released;
    // Their buffers belong to nexar until it has finalized.
    const Completer::Operations left = completer_->stop();
    nexar_comm *world = world_;
    world_ = nullptr;
    for (const auto &op : left)
        op->conclude(op->destroyedError());
    if (nexar_finalize(world) != NEXAR_OK)
        LOG(WARNING) << "nexar: " << nexar_last_error();
    seed_ = nullptr;
}

void World::abandon() {
    (void)completer_.release(); // its thread uses a world that is not closed
    world_ = nullptr;
}

std::map<std::string, int> World::update() {
    nexar_change change = {};
    nexar_comm *world = comm();
    const Completer::Operations left = completer_->stop();
    nexar_err err = nexar_comm_update(&world, &change);
    std::exception_ptr failure = err == NEXAR_OK ? nullptr : exceptionOf(err, "update");
    world_ = world;
    if (world_)
        completer_ = std::make_unique<Completer>(world_);
    for (const auto &op : left)
        completer_->add(op);
    if (failure)
        std::rethrow_exception(failure);
    return {{"old_rank", change.old_rank}, {"old_size", change.old_size},
            {"new_rank", change.new_rank}, {"new_size", change.new_size},
            {"joined", change.joined},     {"left", change.left},
            {"failed", change.failed}};
}

bool World::any(bool flag) {
    uint8_t flagged = flag;
    check(nexar_allreduce(comm(), NEXAR_IN_PLACE, &flagged, 1, NEXAR_U8, NEXAR_MAX), "any");
    return flagged != 0;
}

} // namespace nexar
