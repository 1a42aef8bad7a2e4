// module.cpp - the extension module: World, Seed and ProcessGroupNexar for Python.
#include "process_group.hpp"

#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

namespace py = pybind11;
using namespace nexar;
using Milliseconds = std::chrono::milliseconds;

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    py::module_::import("torch._C._distributed_c10d"); // the class Backend
    using Free = py::call_guard<py::gil_scoped_release>;

    py::class_<Seed, std::shared_ptr<Seed>>(m, "Seed")
        .def(py::init<const Settings &>(), Free())
        .def_property_readonly("join_string", &Seed::joinString)
        .def("stop", &Seed::stop, Free());

    // A world that Python releases last must not be closed with the GIL held.
    py::class_<World, std::shared_ptr<World>>(m, "World")
        .def(py::init<const Settings &>(), Free())
        .def_property_readonly("rank", &World::rank)
        .def_property_readonly("size", &World::size)
        .def_property_readonly("usable", &World::usable)
        .def("adopt", &World::adopt)
        .def("update", &World::update, Free())
        .def("any", &World::any, Free())
        .def("close", &World::close, Free())
        .def("abandon", &World::abandon);

    py::class_<ProcessGroupNexar, c10d::Backend, c10::intrusive_ptr<ProcessGroupNexar>>(
        m, "ProcessGroupNexar")
        .def(py::init([](std::shared_ptr<World> world, Milliseconds timeout, bool closes) {
                 return c10::make_intrusive<ProcessGroupNexar>(std::move(world), timeout, closes);
             }),
             py::arg("world"), py::arg("timeout"), py::arg("closes") = true, Free())
        .def_static("create", &ProcessGroupNexar::create, py::arg("world"), py::arg("ranks"),
                    py::arg("tag"), py::arg("timeout"), Free())
        .def_property_readonly("world", &ProcessGroupNexar::world)
        .def("shutdown", &ProcessGroupNexar::shutdown, Free())
        .def("abort", &ProcessGroupNexar::abort, Free())
        .def(
            "monitored_barrier",
            [](ProcessGroupNexar &group, std::optional<Milliseconds> timeout, bool all) {
                c10d::BarrierOptions opts;
                opts.timeout = timeout.value_or(c10d::kUnsetTimeout);
                group.monitoredBarrier(opts, all);
            },
            py::arg("timeout") = py::none(), py::arg("wait_all_ranks") = false, Free())
        .def("allreduce_compressed", &ProcessGroupNexar::allreduceCompressed, py::arg("tensor"),
             py::arg("how"), py::arg("ratio") = 0.01, py::arg("residual") = py::none(), Free());

    m.def("version", [] { return std::string(nexar_version()); });
}
