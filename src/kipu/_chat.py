"""A model's chat template, rendered in jinja2's sandbox (extra kipu[chat]). Templates come from untrusted files."""
import json
from datetime import datetime

_LONGEST = 1 << 20


def render(template, messages, *, bos="", eos="", add_generation_prompt=True):
    """Text of a conversation.

    Parameters
    ----------
    template : str, the model's `tokenizer.chat_template`.
    messages : list of {"role": str, "content": str}.
    bos, eos : str, texts of the model's special tokens.

    Raises
    ------
    ImportError
        jinja2 is not installed.
    ValueError
        The template is broken, refuses the messages, or writes more than a megabyte.
    """
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise ImportError("chat templates need jinja2: pip install kipu[chat]") from None

    def refuse(message):
        raise TemplateError(message)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.globals.update(raise_exception=refuse, strftime_now=lambda form: datetime.now().strftime(form))
    env.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    try:
        text, size = [], 0
        for piece in env.from_string(template).generate(messages=messages, tools=None, documents=None, bos_token=bos, eos_token=eos,
                                                        add_generation_prompt=add_generation_prompt):
            size += len(piece)
            if size > _LONGEST:
                raise TemplateError("it writes more than a megabyte")
            text.append(piece)
    except (TemplateError, OverflowError, TypeError, RecursionError) as e:
        raise ValueError(f"chat template: {e}") from e
    return "".join(text)
