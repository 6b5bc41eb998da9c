"""Common tools: checks of arguments, bytes, randomness, files and figures."""
