"""From an opened model to a recorded program: metadata -> hyper-parameters -> architecture file."""
from . import architectures
from ._core import ProgramRecorder
from ._hparams import HyperParams
from ._recorder import Recorder, Weights


def build_program(handle, metadata, n_vocab):
    """Records the forward pass of a model that is being loaded and declares its weights.

    Parameters
    ----------
    handle : model handle; int(handle) is the address of its kipu_model.
    metadata : mapping of metadata keys to Python values, overrides applied.
    n_vocab : int, tokens of the vocabulary.

    Returns
    -------
    HyperParams

    Raises
    ------
    ValueError
        Unknown architecture; a key or tensor is missing or has another shape; the message names it.
    NotImplementedError
        A feature of a later version.
    """
    architecture = architectures.find(metadata.get("general.architecture"))
    hp = HyperParams(metadata, n_vocab)
    architecture.hyper_params(hp)
    program = ProgramRecorder(handle)
    architecture.build(Recorder(program), Weights(program, hp))
    hp.release_metadata()
    return hp
