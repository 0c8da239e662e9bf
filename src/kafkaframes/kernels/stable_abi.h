/* What glue.c uses of Python, declared here so that a C compiler is enough: Python's own headers are a package of their
   own on many systems, and those of this machine say nothing about the machines that kernels are compiled for.

   All of it is in the stable ABI of 3.11 (PEP 384; docs.python.org, "Stable Application Binary Interface"), whose
   functions, layouts and numbers no later version changes. tests/kernels/test_glue.py compares them with Python.h. */

#include <stddef.h>
#include <stdint.h>

typedef intptr_t Py_ssize_t;
typedef struct PyTypeObject PyTypeObject;
typedef struct PyThreadState PyThreadState;

typedef struct PyObject {
    Py_ssize_t ob_refcnt;
    PyTypeObject *ob_type;
} PyObject;

typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);

typedef struct {
    const char *ml_name;
    PyCFunction ml_meth;
    int ml_flags;
    const char *ml_doc;
} PyMethodDef;

typedef struct {
    int slot;
    void *value;
} PyModuleDef_Slot;

typedef struct {
    PyObject ob_base;
    PyObject *(*m_init)(void);
    Py_ssize_t m_index;
    PyObject *m_copy;
    const char *m_name;
    const char *m_doc;
    Py_ssize_t m_size;
    PyMethodDef *m_methods;
    PyModuleDef_Slot *m_slots;
    void *m_traverse, *m_clear, *m_free;
} PyModuleDef;

#define METH_FASTCALL 0x0080
#define Py_mod_exec 2

extern PyObject _Py_NoneStruct;
extern PyTypeObject PyByteArray_Type, PyBytes_Type, PyTuple_Type;
extern PyObject *PyExc_RuntimeError, *PyExc_TypeError;

void Py_IncRef(PyObject *);
void Py_DecRef(PyObject *); /* takes NULL, too */

int PyType_IsSubtype(PyTypeObject *, PyTypeObject *);
int PyObject_IsTrue(PyObject *);
PyObject *PyObject_GetAttrString(PyObject *, const char *);
int PyObject_SetAttrString(PyObject *, const char *, PyObject *);

PyObject *PyLong_FromLongLong(long long);
long long PyLong_AsLongLong(PyObject *);
PyObject *PyTuple_New(Py_ssize_t);
Py_ssize_t PyTuple_Size(PyObject *);
PyObject *PyTuple_GetItem(PyObject *, Py_ssize_t);
int PyTuple_SetItem(PyObject *, Py_ssize_t, PyObject *);
char *PyBytes_AsString(PyObject *);
Py_ssize_t PyBytes_Size(PyObject *);
char *PyByteArray_AsString(PyObject *);
Py_ssize_t PyByteArray_Size(PyObject *);
PyObject *PyDict_New(void);
int PyDict_SetItemString(PyObject *, const char *, PyObject *);

PyObject *PyErr_Format(PyObject *, const char *, ...);
PyObject *PyErr_Occurred(void);
PyThreadState *PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState *);

PyObject *PyCapsule_New(void *, const char *, void (*)(PyObject *));
void *PyCapsule_GetPointer(PyObject *, const char *);
PyObject *PyCFunction_NewEx(PyMethodDef *, PyObject *, PyObject *);
PyObject *PyImport_ImportModule(const char *);
PyObject *PyModuleDef_Init(PyModuleDef *);
