# The function table of kipu.h in a capsule: what other native code takes from this module.

from cpython.pycapsule cimport PyCapsule_New

cdef extern from "engine/api_table.h":
    ctypedef struct kipu_ctx:
        pass
    ctypedef struct kipu_voc:
        pass
    ctypedef struct kipu_smpl:
        pass
    ctypedef struct kipu_api:
        kipu_ctx *(*context_of)(void *py_context) except NULL
        kipu_voc *(*vocab_of)(void *py_vocab) except NULL
        kipu_smpl *(*sampler_of)(void *py_sampler) except NULL
    const char *KIPU_API_CAPSULE
    kipu_api *kipu_api_table()


cdef object handle_of(object thing, kind):
    """A handle, or the handle of kipu.Model or kipu.Context."""
    handle = thing if isinstance(thing, kind) else getattr(thing, "handle", None)
    if not isinstance(handle, kind):
        raise TypeError(f"expected {kind.__name__} or an object with one, got {type(thing).__name__}")
    return handle


cdef kipu_ctx *api_context_of(void *py_context) except NULL:
    cdef ContextHandle handle = handle_of(<object>py_context, ContextHandle)
    return <kipu_ctx *>handle.alive().c


cdef kipu_voc *api_vocab_of(void *py_vocab) except NULL:
    thing = <object>py_vocab
    if isinstance(thing, Vocab):
        return <kipu_voc *>(<Vocab>thing).v
    cdef ModelHandle handle = handle_of(thing, ModelHandle)
    handle.alive()
    return <kipu_voc *>(<Vocab>handle.vocab).v


cdef kipu_smpl *api_sampler_of(void *py_sampler) except NULL:
    cdef Sampler sampler = handle_of(<object>py_sampler, Sampler)
    return <kipu_smpl *>sampler.get_live()


cdef kipu_api *_functions = kipu_api_table()
_functions.context_of, _functions.vocab_of, _functions.sampler_of = api_context_of, api_vocab_of, api_sampler_of
api = PyCapsule_New(_functions, KIPU_API_CAPSULE, NULL)
