"""Where work runs: processes on this machine, or a Dask cluster."""
