"""file_group."""
