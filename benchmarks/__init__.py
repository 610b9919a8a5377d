"""pgqpy and its alternatives, side by side on one server. `make bench`."""
