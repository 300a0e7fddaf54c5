"""Records a page load of headless Chromium as a HAR, in the format of the export of its Network panel."""

import sys

from catnip.web.har import main

if __name__ == "__main__":
    sys.exit(main())
