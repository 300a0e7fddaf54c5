"""Foundation of all other packages: paths, programs, optional libraries, messages on the terminal."""
