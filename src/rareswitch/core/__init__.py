"""The mathematics of the paper: NumPy arrays in, NumPy arrays out."""
