"""One model in every weight format: how far its logits are from those of the exact weights, beside llama.cpp's own distance."""
import pytest
from engine import Context, load, nmse
from reference import FOLDERS, WITHOUT_WHOLE, golden

SELECTED = ("Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K_S", "Q6_K")
ALL = SELECTED + ("Q5_1", "Q5_K_S", "F16", "BF16", "F32")
EACH, MEAN = 1.5, 1.1


def distances(where, name):
    """(ours, theirs): NMSE of base/33 to the logits of the exact weights; for F32 to base itself."""
    folder = FOLDERS[where]
    info, arrays = golden(folder, f"llama-q/{name}")
    with Context(load(folder / "models" / "llama-q" / f"{name}.gguf"), **info["cases"]["base"]["params"]) as ctx:
        code, got = ctx.run(arrays["tokens/33"].tolist())
    assert code == 0
    base = arrays["base/33/logits"]
    exact = arrays.get("dequant_f32/33/logits", base)
    return nmse(exact, got), nmse(exact, base)


@pytest.mark.parametrize("where, names", [("selection", SELECTED), ("whole", ALL)])
def test_distance_to_exact_weights(where, names):
    if where not in FOLDERS:
        pytest.skip(WITHOUT_WHOLE)
    ratios = {}
    for name in names:
        ours, theirs = distances(where, name)
        if name == "F32":
            assert ours <= 1e-5
            continue
        ratios[name] = ours / theirs
    print({name: round(r, 3) for name, r in ratios.items()})
    assert max(ratios.values()) <= EACH, ratios
    assert sum(ratios.values()) / len(ratios) <= MEAN, ratios
