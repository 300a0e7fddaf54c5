"""What all other packages rest on: paths, programs, optional libraries, messages to a person."""
