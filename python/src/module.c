/* module.c - the module `_nexar`. */
#include "binding.h"

#include <pthread.h>

unsigned nxp_forks;

static void on_child(void)
{
    nxp_forks++;
}

static PyObject *version(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyUnicode_FromString(nexar_version());
}

/* error_table() -> [(name, code, scope, text)], from the list of nexar.h */
static PyObject *error_table(PyObject *module, PyObject *unused)
{
#define ROW(NAME, CODE, SCOPE, TEXT) {#NAME, CODE, #SCOPE, TEXT},
    static const struct {
        const char *name;
        int code;
        const char *scope, *text;
    } rows[] = { NEXAR_ERROR_LIST(ROW) };
    PyObject *list = PyList_New(0);

    (void)module;
    (void)unused;
    for (size_t i = 0; (list != NULL) && (i < sizeof(rows) / sizeof(rows[0])); i++) {
        PyObject *row =
            Py_BuildValue("siss", rows[i].name, rows[i].code, rows[i].scope, rows[i].text);

        if ((row == NULL) || (PyList_Append(list, row) != 0)) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

static PyMethodDef functions[] = {
    {"register", nxp_register, METH_O, NULL},
    {"version", version, METH_NOARGS, NULL},
    {"error_table", error_table, METH_NOARGS, NULL},
    {"init", nxp_init, METH_O, NULL},
    {"settings", nxp_setting, METH_NOARGS, NULL},
    {"durations", nxp_durations, METH_NOARGS, NULL},
    {"stop_callbacks", nxp_stop_callbacks, METH_NOARGS, NULL},
    {"dlpack_view", nxp_dlpack_view, METH_O, NULL},
    {"view", nxp_view, METH_VARARGS, NULL},
    {"readable", nxp_readable, METH_VARARGS, NULL},
    {"op_create", nxp_op_create_native, METH_VARARGS, NULL},
    {"op_of", nxp_op_of, METH_VARARGS, NULL},
    {"reduce_local", nxp_reduce_local, METH_VARARGS, NULL},
    NXP_FAST("wait_any", nxp_wait_any),
    {NULL, NULL, 0, NULL},
};

static PyTypeObject *add_type(PyObject *module, const char *name, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);

    if ((type == NULL) || (PyModule_AddObject(module, name, type) != 0)) {
        Py_XDECREF(type);
        return NULL;
    }
    Py_INCREF(type); /* the static pointers */
    return (PyTypeObject *)type;
}

static int exec(PyObject *module)
{
    static bool watches;

    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(
            PyExc_ImportError,
            "nexar: a process has one set of worlds; import it in the main interpreter");
        return -1;
    }
    if (!watches && (pthread_atfork(NULL, NULL, on_child) != 0)) {
        PyErr_NoMemory();
        return -1;
    }
    watches = true;
    nxp_comm_methods();
    nxp_comm_type = add_type(module, "Comm", &nxp_comm_spec);
    nxp_request_type = add_type(module, "Request", &nxp_request_spec);
    nxp_message_type = add_type(module, "Message", &nxp_message_spec);
    nxp_view_type = add_type(module, "View", &nxp_view_spec);
    if ((nxp_comm_type == NULL) || (nxp_request_type == NULL) || (nxp_message_type == NULL) ||
        (nxp_view_type == NULL) || (add_type(module, "Seed", &nxp_seed_spec) == NULL)) {
        return -1;
    }
    return PyModule_AddObject(module, "ANY_TAG", PyLong_FromUnsignedLongLong(NEXAR_ANY_TAG));
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)exec}, {0, NULL}};
static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, "_nexar", NULL, 0, functions, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__nexar(void);
PyMODINIT_FUNC PyInit__nexar(void)
{
    return PyModuleDef_Init(&module_def);
}
