"""The reference side of the trust boundary: inputs, fp64 values, tolerances, baselines. No candidate code is seen here."""
