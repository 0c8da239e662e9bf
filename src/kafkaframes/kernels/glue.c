/* The Python module of a unit (the kernels of one file): a Python function for each kernel, which checks its arguments
   and calls the machine code without the GIL.

   It is compiled together with unit.h, which objects.py writes for each unit (UNIT_KERNELS: the kernels, their
   arguments and entry functions), and linked with the object file of the kernels. An entry function takes all arguments
   as an array of 64-bit words: a number is one word, bytes are two (address and size), an array is its address and the
   length of each dimension.

   It needs Python's stable ABI of 3.11 (stable_abi.h), so that one library serves every later version. Of numpy it uses
   the first fields of an array and of its dtype, whose places are part of numpy's ABI (numpy/ndarraytypes.h, the same in
   1.x and 2.x); the buffer protocol would cost several times what a small kernel takes. */

#include "stable_abi.h"
#include "unit.h"

#define CONTIGUOUS 0x0001
#define ALIGNED 0x0100
#define WRITABLE 0x0400

struct array {
    PyObject head;
    char *data;
    int dimensions;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    PyObject *base;
    struct dtype *dtype;
    int flags;
};

struct dtype {
    PyObject head;
    PyObject *scalar;
    char kind;
    char type;
    char order;
    char former_flags;
    int number;
};

/* The sizes of numpy's integers by their type numbers: bool, signed and unsigned char, short, int, long, long long. */
static const char SIZES[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 8, 8};

static PyTypeObject *array_type;

static int is_a(PyObject *value, PyTypeObject *type) {
    return value->ob_type == type || PyType_IsSubtype(value->ob_type, type);
}

/* Whether a value is an array of the type, dimensions and layout that the kernel was compiled for. */
static int fits(const struct argument *wanted, PyObject *value) {
    if (!is_a(value, array_type)) {
        return 0;
    }
    const struct array *array = (const struct array *)value;
    const struct dtype *dtype = array->dtype;
    const int needed = CONTIGUOUS | ALIGNED | (wanted->writable ? WRITABLE : 0);
    return dtype->number >= 0 && dtype->number < (int)sizeof SIZES && SIZES[dtype->number] == wanted->size &&
           dtype->kind == wanted->kind && dtype->order != '>' && array->dimensions == wanted->dimensions &&
           (array->flags & needed) == needed;
}

/* Raise TypeError about an argument. */
static int refuse(const struct kernel *kernel, Py_ssize_t index, const char *wanted) {
    PyErr_Format(PyExc_TypeError, "%s(): argument %zd is not %s", kernel->name, index + 1, wanted);
    return -1;
}

/* The put functions write one argument as words, and move *word behind them; -1 where it was refused. */

static int put_array(const struct kernel *kernel, const struct argument *wanted, Py_ssize_t index, PyObject *value,
                     int64_t **word) {
    if (!fits(wanted, value)) {
        return refuse(kernel, index, wanted->words);
    }
    const struct array *array = (const struct array *)value;
    *(*word)++ = (int64_t)(intptr_t)array->data;
    for (int axis = 0; axis < array->dimensions; axis++) {
        *(*word)++ = array->shape[axis];
    }
    return 0;
}

static int put_arrays(const struct kernel *kernel, const struct argument *wanted, Py_ssize_t index, PyObject *value,
                      int64_t **word) {
    if (!is_a(value, &PyTuple_Type) || PyTuple_Size(value) != wanted->count) {
        return refuse(kernel, index, "a tuple of the right length");
    }
    for (int at = 0; at < wanted->count; at++) {
        if (put_array(kernel, wanted, index, PyTuple_GetItem(value, at), word) < 0) {
            return -1;
        }
    }
    return 0;
}

static int put_number(int64_t **word, PyObject *value) {
    const int64_t number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred()) {
        return -1;
    }
    *(*word)++ = number;
    return 0;
}

static int put_truth(int64_t **word, PyObject *value) {
    const int truth = PyObject_IsTrue(value);
    *(*word)++ = truth;
    return truth < 0 ? -1 : 0;
}

/* A bytearray is the caller's alone while the kernel runs: nothing holds its memory in place. */
static int put_bytearray(const struct kernel *kernel, Py_ssize_t index, PyObject *value, int64_t **word) {
    if (!is_a(value, &PyByteArray_Type)) {
        return refuse(kernel, index, "a bytearray");
    }
    *(*word)++ = (int64_t)(intptr_t)PyByteArray_AsString(value);
    *(*word)++ = PyByteArray_Size(value);
    return 0;
}

static int put_bytes(const struct kernel *kernel, Py_ssize_t index, PyObject *value, int64_t **word) {
    if (!is_a(value, &PyBytes_Type)) {
        return refuse(kernel, index, "bytes");
    }
    *(*word)++ = (int64_t)(intptr_t)PyBytes_AsString(value);
    *(*word)++ = PyBytes_Size(value);
    return 0;
}

/* The letters are those of Argument.what in objects.py. */
static int put(const struct kernel *kernel, Py_ssize_t index, PyObject *value, int64_t **word) {
    const struct argument *wanted = &kernel->arguments[index];
    switch (wanted->what) {
    case 'i':
        return put_number(word, value);
    case 't':
        return put_truth(word, value);
    case 'b':
        return wanted->writable ? put_bytearray(kernel, index, value, word) : put_bytes(kernel, index, value, word);
    case 'a':
        return put_array(kernel, wanted, index, value, word);
    default:
        return put_arrays(kernel, wanted, index, value, word);
    }
}

/* The result of a kernel as Python has it: None, one number, or a tuple of numbers. */
static PyObject *result_of(const struct kernel *kernel, const int64_t *results) {
    if (kernel->results < 0) {
        Py_IncRef(&_Py_NoneStruct);
        return &_Py_NoneStruct;
    }
    if (kernel->results == 0) {
        return PyLong_FromLongLong(results[0]);
    }
    PyObject *tuple = PyTuple_New(kernel->results);
    for (int at = 0; tuple != NULL && at < kernel->results; at++) {
        PyObject *number = PyLong_FromLongLong(results[at]);
        if (number == NULL || PyTuple_SetItem(tuple, at, number) < 0) {
            Py_DecRef(tuple);
            return NULL;
        }
    }
    return tuple;
}

/* What Python calls. The capsule that each function was made with holds its kernel. */
static PyObject *call(PyObject *self, PyObject *const *args, Py_ssize_t given) {
    const struct kernel *kernel = PyCapsule_GetPointer(self, NULL);
    int64_t words[UNIT_MAX_WORDS], results[UNIT_MAX_RESULTS];
    int64_t *word = words;
    if (kernel == NULL) {
        return NULL;
    }
    if (given != kernel->count) {
        return PyErr_Format(PyExc_TypeError, "%s() takes %d arguments, not %zd", kernel->name, kernel->count, given);
    }
    for (Py_ssize_t index = 0; index < given; index++) {
        if (put(kernel, index, args[index], &word) < 0) {
            return NULL;
        }
    }
    PyThreadState *state = PyEval_SaveThread();
    const int failed = kernel->run(words, results);
    PyEval_RestoreThread(state);
    if (failed) {
        return PyErr_Format(PyExc_RuntimeError, "%s() failed", kernel->name);
    }
    return result_of(kernel, results);
}

static PyMethodDef methods[UNIT_COUNT];

static int add_kernel(PyObject *kernels, int index) {
    const struct kernel *kernel = &UNIT_KERNELS[index];
    methods[index] = (PyMethodDef){kernel->name, (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL};
    PyObject *self = PyCapsule_New((void *)kernel, NULL, NULL);
    PyObject *function = self == NULL ? NULL : PyCFunction_NewEx(&methods[index], self, NULL);
    const int status = function == NULL ? -1 : PyDict_SetItemString(kernels, kernel->name, function);
    Py_DecRef(self);
    Py_DecRef(function);
    return status;
}

/* Give the module its one attribute, KERNELS: a dict of functions by name. */
static int fill(PyObject *module) {
    PyObject *numpy = PyImport_ImportModule("numpy");
    array_type = numpy == NULL ? NULL : (PyTypeObject *)PyObject_GetAttrString(numpy, "ndarray");
    Py_DecRef(numpy);
    PyObject *kernels = array_type == NULL ? NULL : PyDict_New();
    int status = kernels == NULL ? -1 : 0;
    for (int index = 0; status == 0 && index < UNIT_COUNT; index++) {
        status = add_kernel(kernels, index);
    }
    if (status == 0) {
        status = PyObject_SetAttrString(module, "KERNELS", kernels);
    }
    Py_DecRef(kernels);
    return status;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};
static PyModuleDef definition = {.ob_base = {1, NULL}, .m_name = "kafkaframes_unit", .m_slots = slots};

__attribute__((visibility("default"))) PyObject *PyInit_kafkaframes_unit(void) { return PyModuleDef_Init(&definition); }
