#!/usr/bin/env python
"""Writes python/catnip/_model_functions.pyi: the functions of models, as the compiled core declares them."""

import inspect
from pathlib import Path

from catnip import models

STUB = Path(__file__).resolve().parents[1] / "python" / "catnip" / "_model_functions.pyi"
HEAD = '''"""Functions of analytical models, written by tools/model_stub.py."""

from typing import Any

from numpy.typing import ArrayLike

'''


def text() -> str:
    """Returns the text of _model_functions.pyi, the stub of all functions of models."""
    functions = (getattr(models, name) for name in models.MODELS if name != "hysteresis_trace")
    return HEAD + "".join(f"def {of.__name__}({_parameters(of)}) -> Any: ...\n" for of in functions)


def _parameters(of: object) -> str:
    assert callable(of)
    shown = []
    for parameter in inspect.signature(of).parameters.values():
        is_required = parameter.default is inspect.Parameter.empty
        shown.append(f"{parameter.name}: ArrayLike" + ("" if is_required else " = ..."))
    return ", ".join(shown)


if __name__ == "__main__":
    STUB.write_text(text(), encoding="utf-8")
