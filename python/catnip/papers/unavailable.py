"""Measurements without a value, whose claims are left out of the verdicts."""

from catnip._core import InputError


class Unavailable(InputError):
    """Measurement that this machine cannot make, or that a quick run leaves out; the text is the reason."""
