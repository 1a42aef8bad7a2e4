# The front door.  CMake does the work; every target here is a few commands that
# can be typed by hand (CMakePresets.json has the presets).
#
#   PREFIX=/usr/local DESTDIR=  where `make install` installs
#   SETUP=no                    install no packages: all that is needed is here
#   JOBS=N                      how much is done at once
#   TEST_JOBS=N                 how many tests are; one more than JOBS, since many wait
#   FUZZ_SECONDS=20             for each fuzz target, FUZZ_JOBS of them at once
#   PEERS_OPTIONS=              for make bench-peers; see scripts/bench_peers.sh
#   NET_OPTIONS=                for make bench-net; see scripts/bench_net.py
#   CHURN_SECONDS=600           for make churn, by shared memory, by QUIC, and by both
#   SOAK_TIMES=10               for make soak, SOAK_TESTS=REGEX: only those, LONG=0: long ones
#                               as often as the others; see scripts/soak.sh
#   PYTHON=python3              for make python: it has pip; WHEELS=build/wheels: where they go
#   MATRIX_OPTIONS=             for make matrix; see scripts/fault_matrix.sh
PREFIX ?= /usr/local
DESTDIR ?=
SETUP ?= yes
JOBS ?= $(shell nproc)
TEST_JOBS ?= $(shell expr $(JOBS) + 1)
FUZZ_SECONDS ?= 20
FUZZ_JOBS ?= $(JOBS)
PEERS_OPTIONS ?=
CHURN_SECONDS ?= 600
SOAK_TIMES ?= 10
SOAK_TESTS ?= .
MATRIX_OPTIONS ?=
PYTHON ?= python3
WHEELS ?= build/wheels

.DEFAULT_GOAL := help
.PHONY: help demo test check docs install uninstall python test-torch asan tsan fuzz bench bench-peers bench-net matrix churn \
	soak mutate model clean

setup = @$(if $(filter no,$(SETUP)),:,scripts/setup.sh $(1))
# $(1): the preset; $(2): more for cmake.
build = @cmake --preset $(1) $(2) >/dev/null && cmake --build --preset $(1) -j $(JOBS)
ctest = @scripts/fair.sh ctest --preset $(1) -j $(TEST_JOBS)

help:
	@echo 'make demo      set up, build, and run four ranks over QUIC and shared memory; a report'
	@echo 'make test      set up, build, and run all tests'
	@echo 'make check     format, lint, layers, symbols, headers, scripts, clang'
	@echo 'make install   PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)'
	@echo 'make uninstall remove what make install has installed; the same DESTDIR'
	@echo 'make docs      pages of docs/reference and pictures, from nexar.h, the command and the sources'
	@echo 'make python    the wheel of the Python package, in WHEELS=$(WHEELS); PYTHON=$(PYTHON)'
	@echo 'make test-torch  nexar.torch with a CPU build of torch, in build/venv-torch; scripts/torch_tests.sh'
	@echo 'make asan      all tests under the address and undefined-behaviour sanitizers'
	@echo 'make tsan      all tests under the thread sanitizer'
	@echo 'make fuzz      every fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS)'
	@echo 'make bench     reductions beside plain loops, messages, calls, QUIC beside raw UDP'
	@echo 'make bench-peers  QUIC beside Open MPI and Gloo by TCP, by turns; PEERS_OPTIONS=--quick;'
	@echo '               PEERS_OPTIONS=--shm: shared memory beside Open MPI and MPICH'
	@echo 'make bench-net  nexar beside Open MPI and Gloo between network namespaces, pass or fail;'
	@echo '               NET_OPTIONS=--quick'
	@echo 'make matrix    every fault, workload and transport: MATRIX_OPTIONS=--docs notes the times'
	@echo 'make churn     ranks are killed and join, one a second, for CHURN_SECONDS=$(CHURN_SECONDS)'
	@echo 'make soak      every test SOAK_TIMES=$(SOAK_TIMES) times on a loaded machine; SOAK_TESTS=REGEX'
	@echo 'make mutate    break the builders on purpose; the simulator must notice'
	@echo 'make model     all that can happen in an agreement of 3 and 4 ranks, by spin'
	@echo 'make clean     remove build/'
	@echo
	@echo 'On a fresh Debian each installs what it needs first; SETUP=no leaves that out.'

demo:
	$(call setup,build)
	$(call build,release,-DBUILD_TESTING=OFF)
	@scripts/demo.sh build/release

test:
	$(call setup,test)
	$(call build,dev)
	$(call ctest,dev)

check:
	$(call setup,check)
	@JOBS=$(JOBS) scripts/check.sh

install:
	$(call setup,build)
	$(call build,release,-DBUILD_TESTING=OFF -DCMAKE_INSTALL_PREFIX=$(PREFIX))
	@DESTDIR=$(DESTDIR) cmake --install build/release
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

uninstall:
	@DESTDIR=$(DESTDIR) scripts/uninstall.sh build/release/install_manifest.txt
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

docs:
	$(call setup,build)
	$(call build,dev)
	@scripts/pages.sh build/dev/bin/nexar

python:
	$(call setup,build)
	@scripts/wheel.sh '$(PYTHON)' '$(WHEELS)'

test-torch:
	$(call setup,test)
	$(call build,dev,) --target nexar nexar_python nexar_cmd
	@scripts/torch_tests.sh build/dev/python

asan tsan:
	$(call setup,test)
	$(call build,$@)
	$(call ctest,$@)

fuzz:
	$(call setup,check)
	$(call build,fuzz)
	@scripts/fuzz.sh build/fuzz $(FUZZ_SECONDS) $(FUZZ_JOBS)

bench:
	$(call setup,check)
	$(call build,release,-DBUILD_TESTING=OFF)
	@build/release/bench/reduce_bench
	@build/release/bench/msg_bench
	@build/release/bench/rpc_bench
	@build/release/bench/quic_bench
	@NEXAR_TRANSPORTS=quic build/release/bin/nexar run -n 2 --no-prefix build/release/bench/quic_bench 2 ranks
	@bench/form.sh build/release
	@bench/quic_veth.sh build/release/bench/quic_bench
	@bench/overlap.sh build/release

bench-peers:
	$(call setup,peers)
	$(call build,release,-DBUILD_TESTING=OFF)
	@scripts/fair.sh scripts/bench_peers.sh build/release $(PEERS_OPTIONS)

bench-net:
	$(call setup,peers)
	$(call build,release,-DBUILD_TESTING=OFF)
	@scripts/fair.sh scripts/bench_net.py $(NET_OPTIONS) build/release

matrix:
	$(call setup,test)
	$(call build,dev)
	@scripts/fair.sh scripts/fault_matrix.sh build/dev $(MATRIX_OPTIONS)

churn:
	$(call setup,test)
	$(call build,dev)
	@scripts/fair.sh build/dev/tests/faults/churn --seconds $(CHURN_SECONDS) build/dev/tests/net/wire
	@scripts/fair.sh build/dev/tests/faults/churn --seconds $(CHURN_SECONDS) --quic build/dev/tests/net/wire
	@scripts/fair.sh build/dev/tests/faults/churn --seconds $(CHURN_SECONDS) --both build/dev/tests/net/wire

soak:
	$(call setup,test)
	$(call build,dev)
	@scripts/fair.sh scripts/soak.sh build/dev $(SOAK_TIMES) '$(SOAK_TESTS)'

mutate:
	$(call setup,test)
	@JOBS=$(JOBS) tests/mutate.sh

model:
	$(call setup,check)
	@scripts/model.sh

clean:
	@rm -rf build
