"""The mathematics of the paper: arrays in, arrays out, and nothing but NumPy."""
