"""Output of results: tables and pages for terminals, notebooks and browsers."""
