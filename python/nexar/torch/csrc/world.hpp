// world.hpp - a nexar world as process groups use it, and the seed of one.
//
// A World owns the world communicator and one thread, the completer.  Every operation that no
// thread of the application waits for is completed by the completer: those with a future, and
// those whose Work was dropped.
#ifndef NEXAR_TORCH_WORLD_HPP
#define NEXAR_TORCH_WORLD_HPP

#include <nexar.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace nexar {

using Settings = std::map<std::string, std::string>;

class Completer;

// Throws DistNetworkError or DistBackendError with the sentence of nexar_last_error(), unless
// |err| is NEXAR_OK.  Must run on the thread whose call returned |err|.
void check(nexar_err err, const char *what);
std::exception_ptr exceptionOf(nexar_err err, const std::string &what);

class Seed {
  public:
    explicit Seed(const Settings &settings);
    ~Seed();
    Seed(const Seed &) = delete;
    Seed &operator=(const Seed &) = delete;
    std::string joinString() const;
    void stop();

  private:
    nexar_seed *seed_ = nullptr;
};

class World {
  public:
    explicit World(const Settings &settings);
    ~World();
    World(const World &) = delete;
    World &operator=(const World &) = delete;

    nexar_comm *comm() const; // throws after close() and in a forked child
    Completer &completer() const { return *completer_; }
    int rank() const { return nexar_rank(comm()); }
    int size() const { return nexar_size(comm()); }
    bool usable() const; // neither closed nor inherited by fork()

    // The seed ends after the world has.
    void adopt(std::shared_ptr<Seed> seed) { seed_ = std::move(seed); }
    // Leaves the cluster.  Operations that are pending end with an error.
    void close();
    // Lets the process end without a good-bye, so that the other ranks see a failure.
    void abandon();
    // Updates the membership: "joined", "left", "failed", "old_rank", "new_size" and so on.
    std::map<std::string, int> update();
    // Whether any rank passes true; all ranks call.
    bool any(bool flag);

  private:
    nexar_comm *world_ = nullptr;
    long owner_ = 0; // the process that made it
    std::unique_ptr<Completer> completer_;
    std::shared_ptr<Seed> seed_;
};

} // namespace nexar
#endif
