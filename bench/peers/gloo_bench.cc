// gloo_bench.cc - what `nexar bench` measures, of Gloo over TCP on loopback: the same
// operations, sizes and method.  For make bench-peers.
//
//     gloo_bench RANKS SECONDS SIZE[,SIZE]... OPERATION...
//
// It forks its ranks, which meet through files; GLOO_BENCH_NETNS and GLOO_BENCH_IFACE put each
// into a network namespace (a list of files) and name the interface there.  Rank 0 prints lines of operation, size,
// iterations, microseconds.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kWarmUp = 3, kProbes = 2, kLeast = 7, kMost = 100000;

double Now() {
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

void Sum(void *out, const void *x, const void *y, size_t n) {
    auto *o = static_cast<float *>(out);
    const auto *a = static_cast<const float *>(x), *b = static_cast<const float *>(y);
    for (size_t i = 0; i < n; i++) {
        o[i] = a[i] + b[i];
    }
}

int Window(size_t size) {
    return size >= (16U << 20) ? 4 : size >= (1U << 20) ? 16 : 64;
}

class Bench {
  public:
    Bench(int rank, int ranks, double seconds, double *shared, size_t room)
        : rank_(rank), ranks_(ranks), seconds_(seconds), shared_(shared), a_(room / sizeof(float)),
          b_(room / sizeof(float)) {}

    void Join(const std::string &dir) {
        gloo::transport::tcp::attr attr;
        const char *iface = std::getenv("GLOO_BENCH_IFACE");
        attr.iface = iface != nullptr ? iface : "lo";
        attr.ai_family = AF_INET;
        auto device = gloo::transport::tcp::CreateDevice(attr);
        gloo::rendezvous::FileStore store(dir);
        context_ = std::make_shared<gloo::rendezvous::Context>(rank_, ranks_);
        context_->connectFullMesh(store, device);
    }

    void MeasureAll(const std::string &name, const std::vector<size_t> &sizes) {
        for (size_t size : sizes) {
            size_ = size;
            if (name == "allreduce") {
                Measure(name, false, 1, [this] { Allreduce(); });
            } else if (name == "broadcast") {
                Measure(name, false, 1, [this] { Broadcast(); });
            } else if (name == "allgather") {
                Measure(name, false, 1, [this] { Allgather(); });
            } else if (name == "alltoall") {
                Measure(name, false, 1, [this] { Alltoall(); });
            } else if (name == "p2p") {
                MeasurePair(name, 2, [this](Buffer *in, Buffer *out) { Pingpong(in, out); });
            } else if (name == "p2p_stream") {
                MeasurePair(name, Window(size), [this](Buffer *in, Buffer *out) { Stream(in, out); });
            } else if (name == "barrier") {
                size_ = 0;
                Measure(name, false, 1, [this] { Barrier(); });
                return;
            }
        }
    }

    void Barrier() {
        gloo::BarrierOptions o(context_);
        o.setTag(tag_++);
        gloo::barrier(o);
    }

  private:
    using Buffer = gloo::transport::UnboundBuffer;

    size_t Whole() const { return size_ / sizeof(float); }
    size_t Block() const { return std::max<size_t>(1, Whole() / static_cast<size_t>(ranks_)); }

    void Allreduce() {
        gloo::AllreduceOptions o(context_);
        o.setOutput(a_.data(), Whole());
        o.setReduceFunction(Sum);
        o.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
        o.setTag(tag_++);
        gloo::allreduce(o);
    }

    void Broadcast() {
        gloo::BroadcastOptions o(context_);
        o.setRoot(0);
        o.setOutput(a_.data(), Whole());
        o.setTag(tag_++);
        gloo::broadcast(o);
    }

    void Allgather() {
        gloo::AllgatherOptions o(context_);
        o.setInput(a_.data(), Block());
        o.setOutput(b_.data(), Block() * static_cast<size_t>(ranks_));
        o.setTag(tag_++);
        gloo::allgather(o);
    }

    void Alltoall() {
        gloo::AlltoallOptions o(context_);
        o.setInput(a_.data(), Block() * static_cast<size_t>(ranks_));
        o.setOutput(b_.data(), Block() * static_cast<size_t>(ranks_));
        o.setTag(tag_++);
        gloo::alltoall(o);
    }

    void Pingpong(Buffer *in, Buffer *out) {
        const int other = 1 - rank_;
        if (rank_ == 0) {
            out->send(other, 1, 0, size_);
            in->recv(other, 2, 0, size_);
            out->waitSend();
            in->waitRecv();
        } else {
            in->recv(other, 1, 0, size_);
            in->waitRecv();
            out->send(other, 2, 0, size_);
            out->waitSend();
        }
    }

    void Stream(Buffer *in, Buffer *out) {
        const int other = 1 - rank_, n = Window(size_);
        for (int i = 0; i < n; i++) {
            if (rank_ == 0) {
                out->send(other, 3, 0, size_);
            } else {
                in->recv(other, 3, 0, size_);
            }
        }
        for (int i = 0; i < n; i++) {
            if (rank_ == 0) {
                out->waitSend();
            } else {
                in->waitRecv();
            }
        }
        if (rank_ == 0) {
            in->recv(other, 4, 0, 1);
            in->waitRecv();
        } else {
            out->send(other, 4, 0, 1);
            out->waitSend();
        }
    }

    void MeasurePair(const std::string &name, double parts,
                     const std::function<void(Buffer *, Buffer *)> &run) {
        auto in = context_->createUnboundBuffer(b_.data(), size_);
        auto out = context_->createUnboundBuffer(a_.data(), size_);
        Measure(name, true, parts, [&] { run(in.get(), out.get()); });
    }

    double Once(bool pair, const std::function<void()> &run) {
        if (!pair) {
            Barrier();
        }
        const double start = Now();
        run();
        return Now() - start;
    }

    // How many more there are to be, of |done| that took |spent| seconds: as nexar bench does.
    int Choose(int done, double spent) {
        int more = 0;
        if (done < kMost && (done < kLeast || spent < seconds_ * 0.9)) {
            const double left = (seconds_ - spent) / (spent / done + 1e-9);
            const double fit = done <= kProbes ? left / 4 : left;
            more = fit < kLeast ? kLeast : static_cast<int>(std::min(fit, static_cast<double>(kMost)));
            more = std::min(more, kMost - done);
        }
        gloo::BroadcastOptions o(context_);
        o.setRoot(0);
        o.setOutput(&more, 1);
        o.setTag(tag_++);
        gloo::broadcast(o);
        return more;
    }

    // Every rank leaves its times where rank 0 finds them.
    void Measure(const std::string &name, bool pair, double parts, const std::function<void()> &run) {
        const bool takes_part = !pair || rank_ < 2;
        double *mine = shared_ + static_cast<size_t>(rank_) * kMost;
        for (int i = 0; takes_part && i < kWarmUp; i++) {
            Once(pair, run);
        }
        const double start = Now();
        int n = 0;
        for (int more = kProbes; more > 0; more = Choose(n, Now() - start)) {
            for (; more > 0; more--, n++) {
                const double t = takes_part ? Once(pair, run) : 0;
                mine[n] = pair && rank_ != 0 ? 0 : t;
            }
        }
        Barrier();
        if (rank_ == 0) {
            std::vector<double> slowest(static_cast<size_t>(n), 0);
            for (int r = 0; r < ranks_; r++) {
                for (int i = 0; i < n; i++) {
                    auto &t = slowest[static_cast<size_t>(i)];
                    t = std::max(t, shared_[static_cast<size_t>(r) * kMost + static_cast<size_t>(i)]);
                }
            }
            std::sort(slowest.begin(), slowest.end());
            std::printf("%s %zu %d %.3f\n", name.c_str(), size_, n,
                        slowest[static_cast<size_t>(n / 2)] / parts * 1e6);
            std::fflush(stdout);
        }
        Barrier();
    }

    int rank_, ranks_;
    double seconds_;
    double *shared_;
    std::vector<float> a_, b_;
    size_t size_ = 0;
    uint32_t tag_ = 16;
    std::shared_ptr<gloo::rendezvous::Context> context_;
};

// Goes into the network namespace of this rank, if there is a list of their files.
bool Enter(int rank) {
    const char *list = std::getenv("GLOO_BENCH_NETNS");
    if (list == nullptr) {
        return true;
    }
    std::istringstream text(list);
    std::string file;
    for (int i = 0; i <= rank; i++) {
        std::getline(text, file, ',');
    }
    const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    const bool done = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
    if (!done) {
        std::perror(file.c_str());
    }
    return done;
}

int RunRank(Bench *bench, const std::string &dir, const std::vector<size_t> &sizes, int argc,
            char **argv) {
    try {
        bench->Join(dir);
        for (int i = 4; i < argc; i++) {
            bench->MeasureAll(argv[i], sizes);
        }
        bench->Barrier();
        usleep(100000); // a rank that closes first makes the others throw
    } catch (const std::exception &e) {
        std::fprintf(stderr, "gloo_bench: %s\n", e.what());
        return 1;
    }
    return 0;
}

} // namespace

int main(int argc, char **argv) {
    const bool help = argc > 1 && std::string(argv[1]) == "--help";
    if (help || argc < 5) {
        std::fprintf(help ? stdout : stderr,
                     "usage: gloo_bench RANKS SECONDS SIZE[,SIZE]... OPERATION...\n");
        return help ? 0 : 2;
    }
    const int ranks = std::atoi(argv[1]);
    if (ranks < 1 || std::atof(argv[2]) <= 0 || std::strtoul(argv[3], nullptr, 10) == 0) {
        std::fprintf(stderr, "gloo_bench: no ranks, no seconds or no sizes; see --help\n");
        return 2;
    }
    std::vector<size_t> sizes;
    std::istringstream text(argv[3]);
    for (std::string word; std::getline(text, word, ',');) {
        sizes.push_back(std::stoul(word));
    }
    const size_t room = sizes.back() + sizeof(float) * static_cast<size_t>(ranks);
    void *memory = mmap(nullptr, sizeof(double) * kMost * static_cast<size_t>(ranks),
                        PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char dir[] = "/tmp/gloo_bench_XXXXXX";
    if (memory == MAP_FAILED || mkdtemp(dir) == nullptr) {
        std::perror("gloo_bench");
        return 1;
    }
    for (int rank = 0; rank < ranks; rank++) {
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (!Enter(rank)) {
                _exit(1);
            }
            Bench bench(rank, ranks, std::atof(argv[2]), static_cast<double *>(memory), room);
            _exit(RunRank(&bench, dir, sizes, argc, argv));
        }
    }
    int status, bad = 0;
    while (wait(&status) > 0) {
        bad |= status != 0;
    }
    return std::system((std::string("rm -rf ") + dir).c_str()) != 0 || bad;
}
