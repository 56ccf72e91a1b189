"""The one log hook of the package.

Records go to the callback of `llama_log_set`, or, without one, to `logging.getLogger("kipu")`, which prints nothing unless the program
configures logging. Nothing else in kipu writes anywhere.
"""
import logging

from . import _callbacks

NONE, DEBUG, INFO, WARN, ERROR, CONT = range(6)

_STANDARD = {NONE: logging.INFO, DEBUG: logging.DEBUG, INFO: logging.INFO, WARN: logging.WARNING, ERROR: logging.ERROR, CONT: logging.INFO}
_logger = logging.getLogger("kipu")
_logger.addHandler(logging.NullHandler())
_hook = None


def set_hook(callback, user_data=None):
    """Sends every record to callback(level, text_bytes, user_data); None restores the default sink. TypeError: not callable."""
    global _hook
    if callback is not None and not callable(callback):
        raise TypeError(f"log callback must be callable or None, got {type(callback).__name__}")
    _hook = None if callback is None else (callback, user_data)


def emit(level, text):
    """Delivers one record, a line of text without its end. An exception of the callback goes to the caller."""
    if _hook is None:
        _logger.log(_STANDARD[level], "%s", text)
        return
    _call(level, text.encode("utf-8", "replace") + b"\n")


def emit_part(text):
    """Continues the previous record (progress dots). The default sink leaves these out."""
    if _hook is not None:
        _call(CONT, text.encode())


def _call(level, text):
    callback, user_data = _hook
    try:
        callback(level, text, user_data)
    except BaseException as e:
        raise _callbacks.mark(e)


def emit_all(records):
    """Delivers (level, text) pairs in order."""
    for level, text in records:
        emit(level, text)
