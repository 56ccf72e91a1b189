/* Forty lines that decode and sample through kipu's function table: the token loop has no Python in it. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <kipu.h>
static const kipu_api *kipu;

/* generate(model, context, sampler, prompt: bytes, n) -> bytes: n tokens behind the prompt. */
static PyObject *generate(PyObject *self, PyObject *args) {
    PyObject *py_model, *py_context, *py_sampler;
    const char *prompt;
    Py_ssize_t size;
    int n, n_text = 0;
    if (!PyArg_ParseTuple(args, "OOOy#i", &py_model, &py_context, &py_sampler, &prompt, &size, &n)) return (void)self, NULL;
    kipu_voc *vocab = kipu->vocab_of(py_model);
    kipu_ctx *ctx = vocab ? kipu->context_of(py_context) : NULL;
    kipu_smpl *sampler = ctx ? kipu->sampler_of(py_sampler) : NULL;
    if (!sampler) return NULL;
    char text[4096], message[256] = "";
    int32_t tokens[1024], code;
    Py_BEGIN_ALLOW_THREADS
    kipu_api_batch batch = {.n_tokens = kipu->tokenize(vocab, prompt, (int32_t)size, tokens, 1024, 1, 0), .token = tokens};
    for (code = kipu->decode(ctx, &batch, message, sizeof message); code == 0 && n > 0; n--) {
        tokens[0] = kipu->sample(sampler, ctx, -1);
        if (tokens[0] < 0 || kipu->is_eog(vocab, tokens[0])) break;
        int32_t length = kipu->token_to_piece(vocab, tokens[0], text + n_text, (int32_t)sizeof text - n_text, 0, 0);
        if (length < 0) break;
        n_text += length;
        batch.n_tokens = 1;
        code = kipu->decode(ctx, &batch, message, sizeof message);
    }
    Py_END_ALLOW_THREADS
    return code ? PyErr_Format(PyExc_RuntimeError, "code %d: %s", (int)code, message) : PyBytes_FromStringAndSize(text, n_text);
}

static PyMethodDef methods[] = {{"generate", generate, METH_VARARGS, "generate(model, context, sampler, prompt, n) -> bytes"}, {0}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "native", .m_size = -1, .m_methods = methods};
PyMODINIT_FUNC PyInit_native(void) { return (kipu = kipu_import()) ? PyModule_Create(&module) : NULL; }
