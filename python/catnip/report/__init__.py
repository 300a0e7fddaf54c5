"""Tables and pages for terminals, notebooks and browsers."""
