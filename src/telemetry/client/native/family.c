/* What requests share with their instruments: `Family` in instruments.py has this as its base. */

#include "requests.h"

#include <math.h>
#include <structmember.h>

static PyObject *family_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    (void)arguments, (void)keywords;
    Family *self = (Family *)type->tp_alloc(type, 0);
    for (int word = 0; self != NULL && word < WORDS; word++)
        self->cached_ids[word] = NAN;
    return (PyObject *)self;
}

static int family_traverse(Family *self, visitproc visit, void *arg)
{
    Py_VISIT(self->open);
    Py_VISIT(self->ids);
    Py_VISIT(self->limits);
    Py_VISIT(self->log);
    Py_VISIT(self->ring);
    return 0;
}

static int family_clear(Family *self)
{
    Py_CLEAR(self->open);
    Py_CLEAR(self->ids);
    Py_CLEAR(self->limits);
    Py_CLEAR(self->log);
    Py_CLEAR(self->ring);
    Py_CLEAR(self->finish);
    return 0;
}

static void family_dealloc(Family *self)
{
    PyObject_GC_UnTrack(self);
    family_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *family_get_ring(Family *self, void *closure)
{
    (void)closure;
    return Py_NewRef(self->ring == NULL ? Py_None : (PyObject *)self->ring);
}

/* A buffer of another kind is none. */
static int family_set_ring(Family *self, PyObject *ring, void *closure)
{
    (void)closure;
    int is_ring = ring != NULL && PyObject_TypeCheck(ring, &RingType);
    Py_XINCREF(is_ring ? ring : NULL);
    Py_XSETREF(self->ring, is_ring ? (Ring *)ring : NULL);
    return 0;
}

/* Reads a number and gives it back. */
static int read_id(PyObject *number, double *id)
{
    if (number == NULL)
        return -1;
    *id = PyFloat_AsDouble(number);
    Py_DECREF(number);
    return PyErr_Occurred() ? -1 : 0;
}

int find_id(Family *self, int word)
{
    if (likely(!isnan(self->cached_ids[word])))
        return 0;
    return read_id(PyObject_GetItem(self->ids, request_words[word]), &self->cached_ids[word]);
}

int find_finish_id(Family *self, PyObject *reason, double *id)
{
    if (likely(self->finish == reason)) {
        *id = self->finish_id;
        return 0;
    }
    PyObject *arguments[] = {(PyObject *)self, request_words[COMPLETED], reason};
    if (read_id(PyObject_VectorcallMethod(request_names[LABELLED], arguments, 3, NULL), id) < 0)
        return -1;
    self->finish_id = *id;
    Py_XSETREF(self->finish, Py_NewRef(reason));
    return 0;
}

static PyMemberDef family_members[] = {
    {"open", T_OBJECT_EX, offsetof(Family, open), 0, NULL},
    {"ids", T_OBJECT_EX, offsetof(Family, ids), 0, NULL},
    {"limits", T_OBJECT_EX, offsetof(Family, limits), 0, NULL},
    {"log", T_OBJECT_EX, offsetof(Family, log), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef family_properties[] = {
    {"ring", (getter)(void (*)(void))family_get_ring, (setter)(void (*)(void))family_set_ring, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject FamilyBaseType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "telemetry.client._recorder.FamilyBase",
    .tp_basicsize = sizeof(Family),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The part of a family of instruments that requests read in C.",
    .tp_new = family_new,
    .tp_dealloc = (destructor)family_dealloc,
    .tp_traverse = (traverseproc)family_traverse,
    .tp_clear = (inquiry)family_clear,
    .tp_members = family_members,
    .tp_getset = family_properties,
};
