"""Tools that every room needs: checks of arguments, bytes, randomness, files and figures."""
