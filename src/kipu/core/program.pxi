# The recorder: Python describes the forward pass of a model once, node by node, into the C program that the model keeps.

from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memset, strncpy

cdef extern from "engine/program.h" nogil:
    ctypedef enum kipu_op:
        KIPU_OP_EMBED, KIPU_OP_RMS_NORM, KIPU_OP_LINEAR, KIPU_OP_ROPE, KIPU_OP_ATTENTION, KIPU_OP_ADD, KIPU_OP_GLU, KIPU_OP_ROWS,
        KIPU_OP_SOFTCAP, KIPU_OP_LOGITS
    ctypedef struct kipu_node:
        kipu_op op
        int32_t src[3]
        int32_t weight, bias, width, il
        int32_t i[4]
        float f[2]
        char name[32]
    ctypedef struct kipu_rope_set:
        int32_t n_rot
        float freq_base, freq_scale
        int32_t factors
        bint fixed "fixed"
    ctypedef struct kipu_program:
        pass
    kipu_status kipu_program_add(kipu_program *p, const kipu_node *node, int32_t *index, kipu_error *err)
    kipu_status kipu_program_add_rope(kipu_program *p, const kipu_rope_set *set, int32_t *index, kipu_error *err)
    kipu_status kipu_program_name(kipu_program *p, int32_t index, const char *name, int32_t il, kipu_error *err)

cdef extern from "engine/model.h" nogil:
    ctypedef struct kipu_model:
        pass
    kipu_program *kipu_model_program(kipu_model *m)
    kipu_status kipu_model_weight(kipu_model *m, const char *name, int n_dims, const int64_t *ne, bint optional, int32_t *index,
                                  kipu_error *err)


cdef class ProgramRecorder:
    """Writes nodes into the program of a model that is being loaded. Used by kipu._recorder alone."""
    cdef kipu_model *model
    cdef object owner

    def __init__(self, owner):
        """owner: a model handle; int(owner) is the address of its kipu_model."""
        self.model = <kipu_model *><uintptr_t>int(owner)
        self.owner = owner

    def weight(self, str name, tuple shape, bint optional=False):
        """Index of a weight with this shape (fastest dimension first), or -1 if it is optional and absent."""
        cdef int64_t ne[4]
        cdef int32_t index = -1
        cdef kipu_error err
        cdef bytes raw = name.encode()
        cdef int i
        for i in range(len(shape)):
            ne[i] = shape[i]
        check(kipu_model_weight(self.model, raw, len(shape), ne, optional, &index, &err), &err)
        return index

    def node(self, int op, int32_t width, tuple src, int32_t weight=-1, int32_t bias=-1, int32_t il=-1, tuple ints=(), tuple floats=(),
             str name=""):
        """Appends a node and returns its index."""
        cdef kipu_node n
        cdef kipu_error err
        cdef int32_t index = -1
        cdef int i
        memset(&n, 0, sizeof(n))
        n.op = <kipu_op>op
        n.width, n.weight, n.bias, n.il = width, weight, bias, il
        for i in range(3):
            n.src[i] = src[i] if i < len(src) else -1
        for i in range(len(ints)):
            n.i[i] = ints[i]
        for i in range(len(floats)):
            n.f[i] = floats[i]
        cdef bytes raw = name.encode()
        strncpy(n.name, raw, 31)
        check(kipu_program_add(kipu_model_program(self.model), &n, &index, &err), &err)
        return index

    def rope_set(self, int32_t n_rot, float base, float scale, int32_t factors=-1, bint fixed=False):
        """Appends a set of rope frequencies and returns its index."""
        cdef kipu_rope_set s
        cdef kipu_error err
        cdef int32_t index = -1
        s.n_rot, s.freq_base, s.freq_scale, s.factors, s.fixed = n_rot, base, scale, factors, fixed
        check(kipu_program_add_rope(kipu_model_program(self.model), &s, &index, &err), &err)
        return index

    def name(self, int32_t index, str name, int32_t il):
        """Names an earlier node."""
        cdef kipu_error err
        cdef bytes raw = name.encode()
        check(kipu_program_name(kipu_model_program(self.model), index, raw, il, &err), &err)
