"""Tables of several formats with unique keys, to which random changes are made."""
