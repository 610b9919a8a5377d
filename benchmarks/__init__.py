"""pgqpy and what one would pick instead, side by side on one server. `make bench`."""
