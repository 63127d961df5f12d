// A program that embeds Python: interpreters that begin and end, sub-interpreters, threads with and without Python. embedded.py
// compares the frames in each. A line of the output is a case and whose frames were found.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static ssize_t (*probe)(char *, size_t);
static const char *script;

// The frames as text, or a negative number. Without the global lock, as ttnn calls.
static PyObject *frames(PyObject *self, PyObject *nothing) {
    (void)self, (void)nothing;
    char *buffer = malloc(1 << 16);
    ssize_t length;
    Py_BEGIN_ALLOW_THREADS
    length = probe(buffer, 1 << 16);
    Py_END_ALLOW_THREADS
    PyObject *found = length < 0 ? PyLong_FromSsize_t(length) : PyUnicode_DecodeUTF8(buffer, length, "replace");
    free(buffer);
    return found;
}

static PyMethodDef methods[] = {{"frames", frames, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot slots[] = {
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "probe", NULL, 0, methods, slots, NULL, NULL, NULL};
static PyObject *init(void) { return PyModuleDef_Init(&definition); }

static void run(const char *name) {
    char line[4096];
    snprintf(line, sizeof line, "case, path = '%s', '%s'\nexec(compile(open(path).read(), path, 'exec'))\n", name, script);
    if (PyRun_SimpleString(line) != 0) exit(1);
}

static void without_python(const char *name) {
    char buffer[256];
    ssize_t length = probe(buffer, sizeof buffer);
    printf("%s: %s\n", name, length < 0 ? "none" : "WRONG");
    fflush(stdout);
}

static void *bare_thread(void *nothing) {
    without_python("a thread without Python");
    return nothing;
}

static void *python_thread(void *nothing) {
    PyGILState_STATE state = PyGILState_Ensure();
    run("a thread");
    PyGILState_Release(state);
    return nothing;
}

static void shared_lock(const char *name) {
    PyThreadState *before = PyThreadState_Get();
    PyThreadState *sub = Py_NewInterpreter();
    if (sub == NULL) exit(2);
    run(name);
    Py_EndInterpreter(sub);
    PyThreadState_Swap(before);
}

static void own_lock(const char *name) {
#ifdef Py_mod_multiple_interpreters
    PyInterpreterConfig config = {.check_multi_interp_extensions = 1, .allow_threads = 1, .gil = PyInterpreterConfig_OWN_GIL};
    PyThreadState *before = PyThreadState_Get(), *sub = NULL;
    if (PyStatus_Exception(Py_NewInterpreterFromConfig(&sub, &config))) exit(3);
    run(name);
    Py_EndInterpreter(sub);
    PyThreadState_Swap(before);
#else
    (void)name;
#endif
}

static void *sub_thread(void *nothing) {
    PyGILState_STATE state = PyGILState_Ensure();
    shared_lock("a sub-interpreter in a thread");
    own_lock("a sub-interpreter with its own lock in a thread");
    PyGILState_Release(state);
    return nothing;
}

static void in_threads(void *(*function)(void *), int count) {
    pthread_t threads[4];
    Py_BEGIN_ALLOW_THREADS
    for (int number = 0; number < count; number++) pthread_create(&threads[number], NULL, function, NULL);
    for (int number = 0; number < count; number++) pthread_join(threads[number], NULL);
    Py_END_ALLOW_THREADS
}

int main(int count, char **arguments) {
    if (count != 3) return 4;
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (library == NULL) return 5;
    script = arguments[2];
    *(void **)&probe = dlsym(library, "pystack_probe");
    PyImport_AppendInittab("probe", init);
    for (int time = 0; time < 2; time++) {
        without_python("before the start");
        Py_Initialize();
        without_python("no frames");
        run("plain");
        in_threads(bare_thread, 1);
        in_threads(python_thread, 4);
        shared_lock("a sub-interpreter");
        own_lock("a sub-interpreter with its own lock");
        in_threads(sub_thread, 4);
        run("plain again");
        if (Py_FinalizeEx() != 0) return 6;
        without_python("after the end");
    }
    return 0;
}
