"""`python -m catnip`."""

import sys

from catnip.cli import main

sys.exit(main())
