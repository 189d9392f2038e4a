/* `telemetry.client._recorder`: the module. */

#include "requests.h"

#ifndef SOURCE_CRC
#define SOURCE_CRC 0u
#endif

extern int prepare_names(void);

static int fill(PyObject *module)
{
    if (prepare_names() < 0 || PyType_Ready(&TallyType) < 0 || PyType_Ready(&RecorderType) < 0)
        return -1;
    if (PyModule_AddType(module, &RingType) < 0 || add_requests(module) < 0)
        return -1;
    PyObject *crc = PyLong_FromUnsignedLong(SOURCE_CRC);
    int failed = crc == NULL || PyModule_AddObjectRef(module, "SOURCE_CRC", crc) < 0;
    Py_XDECREF(crc);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_recorder", .m_slots = slots};

PyMODINIT_FUNC PyInit__recorder(void) { return PyModuleDef_Init(&definition); }
