# The code of Cython itself that the other extensions share; it has nothing to import.
