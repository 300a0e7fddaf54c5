"""Test of the example notebook: each cell is executed, and its output is compared with the stored output."""

import ast
import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "notebook" / "queue.ipynb"


def executed(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs the source of a notebook cell and returns its output and the value of its last line, formatted."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), str(NOTEBOOK), "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        data = {"text/plain": repr(value)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_()
        outputs.append(
            {"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs


def test_the_notebook_answers_what_it_shows() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    shown = json.dumps(notebook)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = executed("".join(cell["source"]), names)
    if "CATNIP_BLESS" in os.environ:
        NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    for before, now in zip(json.loads(shown)["cells"], notebook["cells"], strict=True):
        assert before.get("outputs") == now.get("outputs"), now["source"]
    assert sum(bool(cell.get("outputs")) for cell in notebook["cells"]) == 5
